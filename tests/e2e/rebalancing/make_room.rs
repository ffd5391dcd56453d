//! Preemption: a pod of a full node leaves for the deferred resize of another one, and for an
//! infeasible resize no other pod is evicted. The node's kubelet is KWOK, which refuses resizes by
//! an annotation.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{AvailabilityWatch, eventually, requests, requests_in_effect, target, workload};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{HOT as NODE, alone, cordon};
use crate::updater::fixture::Fixture;

/// Pods of 8 CPUs each on a node of 32.
const VICTIMS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_of_a_full_node_leaves_for_a_deferred_resize() -> Result<()> {
    let fixture = alone("room").await?;
    cordon(&fixture, "cordon").await?;
    create(&fixture, "batch", VICTIMS, "8", &json!({})).await?;
    let deferred = json!({"sandbox.plimsoll.dev/resize": "Deferred"});
    create(&fixture, "web", 1, "2", &deferred).await?;
    let infeasible = json!({"sandbox.plimsoll.dev/resize": "Infeasible"});
    create(&fixture, "huge", 1, "1", &infeasible).await?;
    cordon(&fixture, "uncordon").await?;
    fixture.protect("batch", VICTIMS - 1).await?;
    let [batch, web, huge] = [
        fixture.uids("batch").await?,
        fixture.uids("web").await?,
        fixture.uids("huge").await?,
    ];
    let watching = AvailabilityWatch::of(fixture.typed()).await?;
    // Within its bounds: it leaves for another pod only.
    recommend(&fixture, "batch", "Recreate", ["4", "8", "12"]).await?;
    // With 9 CPUs in place of 2, the pods of the node request at least 34.
    recommend(&fixture, "web", "InPlaceOrRecreate", ["8", "9", "12"]).await?;
    let left = one_is_replaced(&fixture, &batch).await?;
    let fewest = watching.fewest("batch", &left).await?;
    ensure!(fewest >= VICTIMS - 1, "{fewest} were left");
    ensure!(fixture.uids("web").await? == web, "the pending pod stays");
    let words = ["MakeRoom", "web-", "deferred resize", "batch-"];
    let columns =
        "REASON:.reason,POD:.regarding.name,POD1:.involvedObject.name,NOTE:.note,NOTE1:.message";
    fixture.reported(columns, &[&words]).await?;
    let on_node = on_node(&fixture).await?;
    ensure!(on_node == VICTIMS - 1, "{on_node} of batch are on {NODE}");

    // Now the kubelet has room for it.
    let allowed = json!({"sandbox.plimsoll.dev/resize": null});
    fixture.annotate_pods("web", &allowed).await?;
    fixture.has_cpu("web", "9").await?;
    ensure!(fixture.uids("web").await? == web, "it is the same pod");
    ensure!(
        watching.fewest("web", &web).await? == 1,
        "it ran all the time"
    );

    let larger = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "app", "image": "registry.example.com/app", "resources": requests("20", "64Mi")},
    ]}}}});
    fixture.patch::<ReplicaSet>("huge", larger).await?;
    recommend(&fixture, "huge", "InPlaceOrRecreate", ["15", "20", "25"]).await?;
    eventually(
        "the pod with the infeasible resize is replaced",
        async || {
            let now = fixture.uids("huge").await?;
            ensure!(now.len() == 1 && now != huge, "{now:?}");
            Ok(())
        },
    )
    .await?;
    fixture.has_cpu("huge", "20").await?;
    let mut now = fixture.uids("batch").await?;
    now.extend(fixture.uids("web").await?);
    let before: Vec<String> = left.into_iter().chain(web).collect();
    let sets = [now, before].map(BTreeSet::from_iter);
    ensure!(sets[0] == sets[1], "no other pod left for it: {sets:?}");
    Ok(())
}

/// Waits until one pod of `batch` was replaced; returns the pods that are there then.
async fn one_is_replaced(fixture: &Fixture, before: &[String]) -> Result<Vec<String>> {
    eventually("one pod leaves the node", async || {
        let now = fixture.uids("batch").await?;
        let stayed = now.iter().filter(|uid| before.contains(uid)).count();
        ensure!(stayed < VICTIMS && now.len() == VICTIMS, "{stayed} stayed");
        ensure!(stayed == VICTIMS - 1, "only {stayed} stayed");
        Ok(now)
    })
    .await
}

async fn on_node(fixture: &Fixture) -> Result<usize> {
    eventually("all pods are on nodes", async || {
        let pods = fixture.pods_of("batch").await?;
        let node = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
        let nodes: Option<Vec<String>> = pods.iter().map(node).collect();
        let nodes = nodes.context("one has no node")?;
        ensure!(nodes.len() == VICTIMS, "{nodes:?}");
        Ok(nodes.iter().filter(|name| *name == NODE).count())
    })
    .await
}

/// A `ReplicaSet` whose pods are ready.
async fn create(
    fixture: &Fixture,
    name: &str,
    replicas: usize,
    cpu: &str,
    annotations: &Value,
) -> Result<()> {
    let object = workload(name, replicas, &requests(cpu, "64Mi"), annotations);
    fixture.create::<ReplicaSet>(object).await?;
    let is_ready = |it: &Value| it["status"]["readyReplicas"] == replicas;
    let ready = fixture.when::<ReplicaSet>(name, "all pods are ready", is_ready);
    ready.await.map(drop)
}

/// A VPA object with a recommendation of CPU: lower bound, target and upper bound.
async fn recommend(fixture: &Fixture, name: &str, mode: &str, cpu: [&str; 3]) -> Result<()> {
    let policy = json!({"updateMode": mode, "minReplicas": 1});
    let spec = json!({"targetRef": target("ReplicaSet", name), "updatePolicy": policy});
    fixture.make::<Vpa>(name, spec).await?;
    let [lower, target, upper] = cpu.map(|cpu| json!({"cpu": cpu}));
    let container = json!({
        "containerName": "app", "lowerBound": lower, "target": target, "upperBound": upper,
        "uncappedTarget": target,
    });
    Ok(fixture.write_recommendation(name, container).await?)
}

impl Fixture {
    /// Waits until the only pod of a workload has this CPU.
    async fn has_cpu(&self, name: &str, cpu: &str) -> Result<()> {
        eventually(&format!("{name} has {cpu} CPUs"), async || {
            let pods = self.pods_of(name).await?;
            let found: Vec<_> = pods
                .iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none())
                .map(|pod| requests_in_effect(pod).and_then(|it| it.get("cpu")))
                .collect();
            let is_one = matches!(found[..], [Some(found)] if found.0 == cpu);
            ensure!(is_one, "{found:?}");
            Ok(())
        })
        .await
    }
}
