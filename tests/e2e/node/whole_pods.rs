//! Pods that are sized as a whole (`spec.resources`), in place of their containers.

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{LOAD_IMAGE, eventually, oom_kills_of, target};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use model::{Memory, Quantity};
use serde_json::{Value, json};

use super::cgroups;
use super::fixture::{Fixture, container, or_skip, runs};

/// Memory of the pod at first.
const LIMIT_MIB: u64 = 200;

/// A pod with two containers that say nothing of resources. `app` holds this memory after some seconds.
fn pod(memory_mib: u64, resources: &Value) -> Value {
    let flags = [
        format!("--memory-mib={memory_mib}"),
        "--memory-after-seconds=3".to_owned(),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let other =
        json!({"name": "other", "image": LOAD_IMAGE, "args": ["--port=8081", "--memory-mib=20"]});
    json!({
        "resources": resources,
        "containers": [container("app", &flags, &json!({})), other],
        "terminationGracePeriodSeconds": 1,
    })
}

async fn autoscale(cluster: &Fixture, name: &str, min_allowed: Value) -> Result<()> {
    let spec = json!({
        "targetRef": target("Deployment", name),
        "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
        "resourcePolicy": {"podPolicy": {"mode": "Auto", "minAllowed": min_allowed}},
    });
    cluster.make::<Vpa>(name, spec).await?;
    Ok(())
}

/// The recommended memory of the pod. No container has a recommendation of its own.
async fn recommended(cluster: &Fixture, name: &str, least_mib: u64) -> Result<i64> {
    let what = format!("at least {least_mib} MiB are recommended for the pod as a whole");
    eventually(&what, async || {
        let vpa = cluster.get::<Vpa>(name).await?;
        let found = &vpa["status"]["recommendation"];
        ensure!(found["containerRecommendations"].is_null(), "{found}");
        let memory = found["podRecommendations"]["target"]["memory"].as_str();
        let memory: Quantity = memory.with_context(|| vpa["status"].to_string())?.parse()?;
        let bytes = Memory::from(&memory).bytes();
        ensure!(bytes >= i64::try_from(least_mib << 20)?, "{memory}");
        Ok(bytes)
    })
    .await
}

/// The request of memory of a pod as a whole, as specified and as the kubelet reports it.
fn requested(pod: &Pod) -> Result<[i64; 2]> {
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let lists = [
        spec.and_then(|it| it.resources.as_ref()),
        status.and_then(|it| it.resources.as_ref()),
    ];
    let [specified, reported] = lists.map(|it| {
        let requests = it?.requests.as_ref()?;
        let memory: Quantity = requests.get("memory")?.0.parse().ok()?;
        Some(Memory::from(&memory).bytes())
    });
    let both = specified
        .zip(reported)
        .with_context(|| format!("{pod:?}"))?;
    Ok(both.into())
}

#[tokio::test]
async fn a_pod_is_sized_as_a_whole_at_creation_and_in_place() -> Result<()> {
    let cluster = or_skip!(Fixture::new("whole"));
    let resources = json!({
        "requests": {"cpu": "25m", "memory": "100Mi"}, "limits": {"memory": "200Mi"},
    });
    cluster.deploy("web", 1, &pod(40, &resources)).await?;
    autoscale(&cluster, "web", json!({})).await?;
    // The sum over both containers.
    recommended(&cluster, "web", 60).await?;

    let first = cluster.pod("web").await?;
    let before = runs(&cluster, "web").await?;
    cluster.set(&first, "memory-mib=120").await?;
    let target = recommended(&cluster, "web", 140).await?;
    // A young pod is updated where its request is below the lower bound.
    let policy = json!({"podPolicy": {"minAllowed": {"memory": "110Mi"}}});
    cluster
        .patch::<Vpa>("web", json!({"spec": {"resourcePolicy": policy}}))
        .await?;
    eventually("the pod is resized as a whole", async || {
        let pod = cluster.pod("web").await?;
        let [specified, reported] = requested(&pod)?;
        ensure!(
            specified >= target && reported == specified,
            "{specified} {reported}"
        );
        // The limit is twice the request.
        let limit_mib = (u64::try_from(specified)? * 2) >> 20;
        let found = cgroups::of_pod(&cluster, &pod)?;
        ensure!(
            found.memory_limit_mib() == limit_mib,
            "{found:?} {limit_mib}"
        );
        Ok(())
    })
    .await?;
    ensure!(
        runs(&cluster, "web").await? == before,
        "a container restarted"
    );

    cluster.delete::<Pod>(&first.name_any()).await?;
    eventually("a new pod is created with the recommendation", async || {
        let pod = cluster.pod("web").await?;
        ensure!(pod.uid() != first.uid(), "the old one is still there");
        let spec = pod.spec.as_ref().context("a specification")?;
        let mut own = spec
            .containers
            .iter()
            .filter_map(|it| it.resources.as_ref());
        let is_sized = own.any(|it| it.requests.is_some() || it.limits.is_some());
        ensure!(!is_sized, "a container was sized: {spec:?}");
        let [specified, _] = requested(&pod)?;
        ensure!(specified >= target, "{specified} {target}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_oom_kill_of_a_whole_pod_is_healed_in_place() -> Result<()> {
    let cluster = or_skip!(Fixture::new("whole-oom"));
    let memory = format!("{LIMIT_MIB}Mi");
    let resources = json!({
        "requests": {"cpu": "25m", "memory": memory}, "limits": {"memory": memory},
    });
    let needed = 2 * LIMIT_MIB;
    cluster
        .create_deployment("hungry", 2, &pod(needed, &resources))
        .await?;
    autoscale(&cluster, "hungry", json!({"memory": memory})).await?;
    cluster.both_hold("hungry", needed).await?;
    for pod in cluster.pods_of("hungry").await? {
        let is_resized = pod.annotations().contains_key("vpaInPlaceUpdated");
        ensure!(is_resized, "{} was replaced", pod.name_any());
        let kills = oom_kills_of(&pod.uid().unwrap_or_default())?;
        ensure!((1..=6).contains(&kills.len()), "{} kills", kills.len());
    }
    Ok(())
}
