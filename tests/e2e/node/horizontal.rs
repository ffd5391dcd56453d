//! Replicas that follow from measured CPU, from schedules and from predictions, with pods that take
//! their time to become ready.

use anyhow::{Context as _, Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::prediction::TimeSeriesPrediction as Prediction;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{eventually, target};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::cgroups::{Applied, all_have};
use super::fixture::{Fixture, container, or_skip, pod_of, resources, run_on, runs};

/// Seconds until the program in a slow pod answers that it is ready.
const SLOW_SECONDS: i64 = 12;

/// CPU at half of the request, which the HPA and the prediction scale by.
fn cpu() -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
}

/// Pods that request 100 millicores and hold next to nothing.
fn pods(flags: &[&str]) -> Value {
    let resources = json!({"requests": {"cpu": "100m", "memory": "20Mi"}});
    json!({
        "containers": [container("app", flags, &resources)],
        "terminationGracePeriodSeconds": 1,
    })
}

#[tokio::test]
async fn an_hpa_scales_by_measured_cpu_next_to_the_suite() -> Result<()> {
    let cluster = or_skip!(Fixture::new("cpu"));
    // One pod uses one and a half of its request, and those that are added use nothing: with three,
    // the average is the target.
    cluster.deploy("busy", 1, &pods(&[])).await?;
    cluster
        .set(&cluster.pod("busy").await?, "cpu-millicores=150")
        .await?;
    let spec = json!({
        "scaleTargetRef": target("Deployment", "busy"),
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": cpu(),
    });
    cluster.make::<Hpa>("busy", spec).await?;
    // By default it scales down in five minutes, so that a moment without CPU time does not cost the busy pod.
    cluster.all_available("busy", 3).await?;
    let at_once = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    let change = json!({"spec": {"behavior": at_once}});
    cluster.patch::<Hpa>("busy", change).await?;
    for pod in cluster.pods_of("busy").await? {
        cluster.set(&pod, "cpu-millicores=0").await?;
    }
    let is_down = |it: &Value| it["spec"]["replicas"] == 1 && it["status"]["replicas"] == 1;
    cluster
        .when::<Deployment>("busy", "it is scaled down", is_down)
        .await
        .map(drop)
}

/// The HPA would divide by the little CPU that an idle program needs.
#[tokio::test]
async fn pods_get_their_cpu_back_once_an_hpa_scales_by_it() -> Result<()> {
    let cluster = or_skip!(Fixture::new("back"));
    let size = resources(["100m", "50Mi"], ["200m", "100Mi"]);
    cluster.deploy("web", 2, &pod_of(&[], &size)).await?;
    let before = runs(&cluster, "web").await?;
    // More memory is needed, and CPU goes with it.
    let policy = json!({"containerName": "*", "minAllowed": {"memory": "100Mi"}});
    cluster
        .autoscale("web", "InPlaceOrRecreate", policy)
        .await?;
    let respect = json!({"metadata": {"annotations": {"plimsoll.dev/hpa": "Respect"}}});
    cluster.patch::<Vpa>("web", respect).await?;
    all_have(&cluster, "web", Applied::of(25, 50, 200)).await?;
    let spec = json!({
        "scaleTargetRef": target("Deployment", "web"),
        "minReplicas": 2,
        "maxReplicas": 2,
        "metrics": cpu(),
    });
    cluster.make::<Hpa>("web", spec).await?;
    all_have(&cluster, "web", Applied::of(100, 200, 200)).await?;
    run_on(&cluster, "web", &before).await
}

/// An EHPA for the Deployment of its name, which predicts CPU.
fn ehpa(name: &str, crons: &Value) -> Value {
    let algorithm = json!({
        "algorithmType": "dsp",
        "dsp": {"sampleInterval": "60s", "historyLength": "3d"},
    });
    let spec = json!({
        "scaleTargetRef": target("Deployment", name),
        "minReplicas": 1,
        "maxReplicas": 5,
        "metrics": cpu(),
        "prediction": {"predictionWindowSeconds": 3600, "predictionAlgorithm": algorithm},
        "crons": crons,
    });
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A schedule that wants three replicas from an hour ago for two hours.
fn open_window() -> Result<Value> {
    let daily = |offset: i64| -> Result<String> {
        let time = Timestamp::now().to_zoned(TimeZone::UTC);
        let time = time.checked_add(offset.hours())?;
        Ok(format!("{} {} * * *", time.minute(), time.hour()))
    };
    Ok(json!([{"name": "open", "start": daily(-1)?, "end": daily(1)?, "targetReplicas": 3}]))
}

/// Seconds from the creation of a pod until its kubelet reported it ready.
fn ready_after(pod: &Pod) -> Result<i64> {
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten());
    let ready = conditions.find(|it| it.type_ == "Ready" && it.status == "True");
    let ready = ready.and_then(|it| it.last_transition_time.as_ref());
    let created = pod.metadata.creation_timestamp.as_ref();
    let (created, ready) = created.zip(ready).context("it is not ready")?;
    Ok(ready.0.as_second() - created.0.as_second())
}

#[tokio::test]
async fn the_measured_time_until_pods_are_ready_is_the_kubelets() -> Result<()> {
    let cluster = or_skip!(Fixture::new("slow"));
    let flag = format!("--ready-after-seconds={SLOW_SECONDS}");
    cluster.deploy("slow", 1, &pods(&[&flag])).await?;
    cluster
        .create::<Ehpa>(ehpa("slow", &open_window()?))
        .await?;
    cluster.all_available("slow", 3).await?;
    let pods = cluster.pods_of("slow").await?;
    let times: Vec<i64> = pods.iter().map(ready_after).collect::<Result<_>>()?;
    ensure!(times.iter().all(|time| *time >= SLOW_SECONDS), "{times:?}");
    // Nine of ten of three pods are all.
    let slowest = times.iter().max().copied();
    let is_measured =
        |it: &Value| it["status"]["prediction"]["podReadySeconds"].as_i64() == slowest;
    let what = format!("the slowest of {times:?} is measured");
    // The next pass without a change comes in minutes.
    let change = json!({"metadata": {"annotations": {"pods": "all are ready"}}});
    cluster.patch::<Ehpa>("slow", change).await?;
    cluster
        .when::<Ehpa>("slow", &what, is_measured)
        .await
        .map(drop)
}

#[tokio::test]
async fn a_predicted_load_gets_pods_that_are_ready() -> Result<()> {
    let cluster = or_skip!(Fixture::new("ahead"));
    cluster.deploy("ahead", 1, &pods(&[])).await?;
    cluster.create::<Ehpa>(ehpa("ahead", &json!([]))).await?;
    cluster
        .when::<Prediction>("ehpa-ahead", "it is made", |_| true)
        .await?;
    // From now on another recommender forecasts it: no history of two days is here.
    let elsewhere = json!({"metadata": {"annotations": {"plimsoll.dev/recommender": "another"}}});
    cluster.patch::<Prediction>("ehpa-ahead", elsewhere).await?;
    // Four pods at the target of 50 millicores.
    let now = Timestamp::now().as_second();
    let samples = (0..120).map(|minute| json!({"value": "0.2", "timestamp": now + 60 * minute}));
    let samples: Vec<Value> = samples.collect();
    let predicted = json!({"predictionMetrics": [{
        "resourceIdentifier": "resource.cpu", "ready": true, "prediction": [{"samples": samples}],
    }]});
    eventually("the predicted load is scaled for", async || {
        // The recommender may have written before it heard of the other one.
        cluster
            .patch_status::<Prediction>("ehpa-ahead", &predicted)
            .await?;
        let deployment = cluster.get::<Deployment>("ahead").await?;
        let hpa = cluster.get::<Hpa>("ehpa-ahead").await?;
        ensure!(deployment["spec"]["replicas"] == 4, "{hpa:#}");
        Ok(())
    })
    .await?;
    cluster.all_available("ahead", 4).await
}
