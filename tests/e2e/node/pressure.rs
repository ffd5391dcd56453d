//! Memory pressure on the node.

use anyhow::{Context as _, Result, ensure};
use e2e::eventually;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt as _;
use model::Quantity;
use serde_json::{Value, json};

use super::fixture::{Fixture, container, or_skip};

const MIB: u64 = 1 << 20;
/// Memory that is left to the pods of the node. The kubelet evicts below 100 MiB, and the kernel
/// kills at 0.
const LEFT_MIB: u64 = 60;

/// Memory that the pods of the node may use in addition, as the kubelet sees it.
async fn available_mib(cluster: &Fixture) -> Result<u64> {
    let path = "/api/v1/nodes/node-real/proxy/stats/summary?only_cpu_and_memory=true";
    let request = http::Request::get(path).body(Vec::new())?;
    let summary: Value = cluster.client.request(request).await?;
    let all = summary["node"]["systemContainers"].as_array();
    let pods = all.and_then(|all| all.iter().find(|it| it["name"] == "pods"));
    let bytes = pods.and_then(|pods| pods["memory"]["availableBytes"].as_u64());
    Ok(bytes.context("the kubelet measures its pods")? / MIB)
}

/// The program takes memory without a request, so the kubelet evicts it first.
#[tokio::test]
async fn an_eviction_under_memory_pressure_counts_as_an_oom_kill() -> Result<()> {
    let cluster = or_skip!(Fixture::alone("pressure"));
    let pod = json!({"containers": [container("app", &[], &json!({}))]});
    cluster.deploy("hog", 1, &pod).await?;
    // What it used at the end is too much for this node.
    let policy = json!({"containerName": "*"});
    cluster.autoscale("hog", "Off", policy).await?;
    let hog = cluster.pod("hog").await?;
    eventually("its usage is known", async || cluster.usage(&hog).await).await?;
    let wanted = available_mib(&cluster).await?.saturating_sub(LEFT_MIB);
    cluster.set(&hog, &format!("memory-mib={wanted}")).await?;
    // The program ends by itself at SIGTERM, so the status of its pod does not tell.
    let used = eventually("the kubelet evicts it, with its usage", async || {
        let events = cluster.list::<Event>().await?;
        let mut evictions = events.iter().filter(|it| it["reason"] == "Evicted");
        let eviction = evictions.find(|it| it["regarding"]["name"] == hog.name_any());
        let annotations = &eviction.context("no event")?["metadata"]["annotations"];
        let usage = annotations["offending_containers_usage"].as_str();
        Ok(usage.context("no usage")?.parse::<Quantity>()?)
    })
    .await?;
    // That usage, the bump of a fifth and the margin of 15 %.
    let least = used.value() * 138 / 100;
    eventually("the eviction counts as an OOM kill", async || {
        let target = cluster.recommended("hog", "target").await?;
        ensure!(target.memory >= least, "{target:?} is below {least}");
        Ok(())
    })
    .await?;
    // The node takes pods again.
    cluster.all_available("hog", 1).await
}
