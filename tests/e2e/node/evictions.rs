//! Evictions of pods that take long to end or to serve, as a kubelet ends and starts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Result, ensure};
use e2e::{AvailabilityWatch, eventually, follow};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::cgroups::{Applied, have};
use super::fixture::{Fixture, amount, or_skip, pod_of, resources};

const REPLICAS: usize = 4;
/// The default eviction tolerance: half.
const TOLERATED: usize = 2;

async fn live(cluster: &Fixture, app: &str) -> Result<Vec<Pod>> {
    let mut pods = cluster.pods_of(app).await?;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(pods)
}

/// Replaces all pods of a new app by larger ones. Returns the smallest number of available pods
/// meanwhile.
async fn replace(cluster: &Fixture, app: &str, pod: Value) -> Result<usize> {
    cluster.deploy(app, REPLICAS, &pod).await?;
    let watching = AvailabilityWatch::of(cluster.typed()).await?;
    let uids = replace_all(cluster, app).await?;
    watching.fewest(app, &uids).await
}

/// Replaces all pods of an app by larger ones, in the mode `Recreate`. Returns the UIDs of those.
async fn replace_all(cluster: &Fixture, app: &str) -> Result<Vec<String>> {
    cluster
        .size_to(app, "Recreate", &amount(["20m", "100Mi"]))
        .await?;
    let new = eventually("all pods are replaced", async || {
        let pods = live(cluster, app).await?;
        let is_new = |pod: &Pod| {
            let spec = json!(pod.spec);
            spec["containers"][0]["resources"]["requests"]["memory"] == "100Mi"
        };
        let are_new = pods.len() == REPLICAS && pods.iter().all(is_new);
        let states = pods.iter().map(|pod| (is_new(pod), &pod.status));
        ensure!(are_new, "{:?}", states.collect::<Vec<_>>());
        Ok(pods)
    })
    .await?;
    cluster.all_available(app, REPLICAS).await?;
    for pod in &new {
        have(cluster, pod, Applied::of(20, 40, 100)).await?;
    }
    Ok(new.iter().filter_map(ResourceExt::uid).collect())
}

fn small() -> Value {
    resources(["20m", "50Mi"], ["40m", "50Mi"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_ignore_sigterm_run_on_next_to_their_replacements() -> Result<()> {
    let cluster = or_skip!(Fixture::new("sigterm"));
    let budget = json!({"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}});
    cluster.make::<PodDisruptionBudget>("web", budget).await?;
    let mut pod = pod_of(&["--ignore-sigterm=true"], &small());
    pod["terminationGracePeriodSeconds"] = json!(30);
    let fewest = replace(&cluster, "web", pod).await?;
    ensure!(fewest == 3, "{fewest} served, the budget is 3");
    // The rollout did not wait for the ends of the old ones.
    let ending = cluster.pods_of("web").await?.len() - REPLICAS;
    ensure!(ending > 0, "no pod that was evicted runs on");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_evictions_wait_for_replacements_that_take_long_to_serve() -> Result<()> {
    let cluster = or_skip!(Fixture::new("slow"));
    let pod = pod_of(&["--ready-after-seconds=20"], &small());
    let fewest = replace(&cluster, "web", pod).await?;
    ensure!(fewest >= REPLICAS - TOLERATED, "only {fewest} served");
    Ok(())
}

/// A Deployment does not count a pod as available until it was ready for some time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_evictions_wait_until_their_deployment_counts_the_replacements() -> Result<()> {
    let cluster = or_skip!(Fixture::new("min-ready"));
    cluster
        .create_deployment("web", REPLICAS, &pod_of(&[], &small()))
        .await?;
    let change = json!({"spec": {"minReadySeconds": 10}});
    cluster.patch::<Deployment>("web", change).await?;
    cluster.all_available("web", REPLICAS).await?;
    let fewest = Arc::new(AtomicI32::new(i32::MAX));
    let seen = Arc::clone(&fewest);
    let _watch = follow(cluster.typed::<Deployment>(), move |event| {
        if let Event::Apply(Deployment { status, .. }) = event {
            let available = status.and_then(|status| status.available_replicas);
            seen.fetch_min(available.unwrap_or(0), Ordering::Relaxed);
        }
    });
    replace_all(&cluster, "web").await?;
    let fewest = usize::try_from(fewest.load(Ordering::Relaxed))?;
    ensure!(fewest == REPLICAS - TOLERATED, "{fewest} were available");
    Ok(())
}
