//! Failures of each component while a workload is scaled by predictions: it is never scaled down.

use anyhow::{Context as _, Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::prediction::TimeSeriesPrediction as Prediction;
use e2e::deployment::{ADAPTER, RECOMMENDER, metric, replicas, system, total};
use e2e::remote_write::{DailyCpu, Receiver};
use e2e::{condition, eventually, message_of, patch, until};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ListParams;
use sandbox::Component;
use serde_json::{Value, json};

use super::fixture::EhpaFixture;
use crate::adapter::fixture::available;

const NATIVE: &str = "ehpa-php-apache";
const DAY: i64 = 24 * 60 * 60;
/// The rise comes so soon, every day at the same time.
const AHEAD: i64 = 20 * 60;
/// Busy time of each day.
const BUSY: i64 = 6 * 60 * 60;
const DAYS: i64 = 5;

#[tokio::test]
async fn a_workload_grows_before_its_daily_rise_and_never_shrinks_because_a_part_is_gone()
-> Result<()> {
    let fixture = EhpaFixture::alone("rise").await?;
    let result = grow_and_fail(&fixture).await;
    // Others use this sandbox, too.
    fixture.sandbox.start(Component::Prometheus).await?;
    fixture.resize("plimsoll-adapter", 2).await?;
    fixture.resize("plimsoll-recommender", 1).await?;
    available(&fixture.client).await?;
    result
}

async fn grow_and_fail(fixture: &EhpaFixture) -> Result<()> {
    fixture.deploy("php-apache", 2, "10m").await?;
    let rise = Timestamp::now().as_second() / 60 * 60 + AHEAD;
    fixture.write_daily_history(rise).await?;
    fixture.apply_documented("simple").await?;
    // Pods are ready at once here, so the measured window would end before the rise.
    let quick = json!({
        "metadata": {"annotations": {"plimsoll.dev/forecast-window": "30m"}},
        "spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}},
    });
    fixture.patch::<Ehpa>("php-apache", quick).await?;

    fixture.has_replicas("php-apache", 10).await?;
    let grown = fixture.get::<Deployment>("php-apache").await?;
    let answer = fixture
        .external("crane_autoscaling_prediction", "php-apache", "resource.cpu")
        .await?;
    let count = answer["items"].as_array().map(Vec::len);
    assert_eq!(count, Some(1), "{answer}");
    let is_known = |it: &Value| measured_percent(it).is_some();
    let native = fixture
        .native_when("the CPU of its pods is known", is_known)
        .await?;
    let asks_for_less = measured_percent(&native).is_some_and(|percent| percent < 50);
    ensure!(asks_for_less, "{native:#}");
    let undisturbed = async |after: &str| {
        let now = fixture.get::<Deployment>("php-apache").await?;
        let same = now["metadata"]["generation"] == grown["metadata"]["generation"];
        let replicas = &now["spec"]["replicas"];
        ensure!(same, "after {after}, it was scaled to {replicas}");
        anyhow::Ok(())
    };

    fixture.sandbox.stop(Component::Prometheus).await?;
    fixture.until_unread().await?;
    fixture.asked_again(5).await?;
    undisturbed("Prometheus was gone").await?;

    fixture.resize("plimsoll-recommender", 0).await?;
    fixture.asked_again(5).await?;
    undisturbed("the recommender was gone").await?;
    let still_counts = |it: &Value| is_active(it) == Some(true);
    fixture
        .native_when("the prediction still counts", still_counts)
        .await?;

    fixture.age_prediction(NATIVE).await?;
    let is_stale = |it: &Value| {
        is_active(it) == Some(false) && message(it).contains("ended its last whole window")
    };
    let what = "the HPA gets the error that the prediction is stale";
    fixture.native_when(what, is_stale).await?;
    undisturbed("the prediction was stale").await?;

    fixture.resize("plimsoll-adapter", 0).await?;
    let is_alone = |it: &Value| {
        let text = message(it);
        is_active(it) == Some(false)
            && text.contains("external metrics")
            && !text.contains("whole window")
    };
    fixture
        .native_when("the autoscaler finds no adapter", is_alone)
        .await?;
    undisturbed("the adapter was gone").await?;
    fixture.resize("plimsoll-adapter", 2).await?;
    available(&fixture.client).await?;
    fixture
        .native_when("the adapter answers again", is_stale)
        .await?;

    fixture.sandbox.start(Component::Prometheus).await?;
    fixture.resize("plimsoll-recommender", 1).await?;
    let is_well = |it: &Value| is_active(it) == Some(true) && metrics(it) == 2;
    fixture
        .native_when("everything is as it was", is_well)
        .await?;
    undisturbed("everything came back").await
}

/// Whether the autoscaler can do its work.
fn is_active(object: &Value) -> Option<bool> {
    Some(condition(&object["status"], "ScalingActive")?["status"] == "True")
}

fn message(object: &Value) -> &str {
    message_of(&object["status"], "ScalingActive")
}

fn metrics(object: &Value) -> usize {
    object["spec"]["metrics"].as_array().map_or(0, Vec::len)
}

/// CPU usage of the pods, as a share of their requests.
fn measured_percent(object: &Value) -> Option<i64> {
    let metrics = object["status"]["currentMetrics"].as_array()?;
    metrics
        .iter()
        .find_map(|metric| metric["resource"]["current"]["averageUtilization"].as_i64())
}

impl EhpaFixture {
    async fn native_when(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        self.when::<Hpa>(NATIVE, what, is_so).await
    }

    /// Days of one pod that uses a tenth of a core, and a whole one in the hours after the rise.
    async fn write_daily_history(&self, rise: i64) -> Result<()> {
        let receiver = Receiver::of(&self.sandbox)?;
        let cpu = DailyCpu {
            namespace: &self.namespace,
            pod: "php-apache-6d5f9c7b8d-aaaaa",
            container: "app",
            rise,
            busy: BUSY,
            low: 0.1,
            high: 1.0,
        };
        let now = rise - AHEAD;
        receiver.write_daily_cpu(&cpu, now - DAYS * DAY, now).await
    }

    /// Returns once the recommender knows that it cannot read any history.
    async fn until_unread(&self) -> Result<()> {
        eventually("the recommender misses Prometheus", async || {
            for replica in replicas(&self.client, RECOMMENDER).await? {
                let unread = metric(&replica, "plimsoll_forecast_unreadable_metrics").await?;
                ensure!(unread > 0.0, "{} reads everything", replica.pod);
            }
            Ok(())
        })
        .await
    }

    /// Returns after this many more requests to the adapter.
    async fn asked_again(&self, times: u32) -> Result<()> {
        let asked = async || total(&self.client, ADAPTER, "plimsoll_adapter_requests_total").await;
        let before = asked().await?;
        until(
            "the autoscaler asks again",
            async || anyhow::Ok(asked().await? - before),
            |more| *more >= f64::from(times),
        )
        .await
    }

    /// Scales a Deployment of the suite, and waits until no other replicas exist.
    pub(crate) async fn resize(&self, name: &str, replicas: i32) -> Result<()> {
        let (deployments, pods) = (system(&self.client).typed(), system(&self.client).typed());
        let change = json!({"spec": {"replicas": replicas}});
        let deployment: Deployment = patch(&deployments, name, change).await?;
        let labels = deployment.spec.selector.match_labels;
        let labels = labels.context("it selects by labels")?.into_iter();
        let labels: Vec<_> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let params = ListParams::default().labels(&labels.join(","));
        eventually("there are as many pods as there should be", async || {
            let pods: Vec<Pod> = pods.list(&params).await?.items;
            let status = deployments.get(name).await?.status.unwrap_or_default();
            let ready = status.ready_replicas.unwrap_or(0);
            let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
            let is_done = pods.len() == usize::try_from(replicas)? && ready == replicas;
            ensure!(is_done, "{ready} ready of {names:?}");
            Ok(())
        })
        .await
    }

    /// Makes the prediction one of yesterday.
    pub(crate) async fn age_prediction(&self, name: &str) -> Result<()> {
        let mut status = self.get::<Prediction>(name).await?["status"].take();
        let metrics = status["predictionMetrics"].as_array_mut();
        let series = metrics
            .context("there is a prediction")?
            .iter_mut()
            .flat_map(|metric| metric["prediction"].as_array_mut().into_iter().flatten());
        let samples =
            series.flat_map(|series| series["samples"].as_array_mut().into_iter().flatten());
        for sample in samples {
            let at = sample["timestamp"].as_i64().context("a time")?;
            sample["timestamp"] = json!(at - DAY);
        }
        let metrics = json!({"predictionMetrics": status["predictionMetrics"]});
        self.patch_status::<Prediction>(name, &metrics).await?;
        Ok(())
    }
}
