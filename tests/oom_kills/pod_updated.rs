//! From an OOM kill to a pod with more memory, replaced or resized in place: recommender, feed,
//! updater and webhook as real processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{UPDATER, leader, scrape};
use e2e::{PATIENCE, eventually, follow, kubectl};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::watcher::Event;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::fixture::{Fixture, memory_in_effect};
use crate::latency::{check, measured};

const WORKLOADS: usize = 5;
/// Measured kills of each mode.
const KILLS: usize = 25;
/// Kills that are not measured: connections are opened, and code runs for the first time.
const WARM_UP: usize = 5;
const REQUESTED_MIB: u64 = 300;
/// Bound of the 99th percentile.
const MOST: Duration = Duration::from_secs(2);

/// By workload, the pod that is there and the memory in effect, in bytes.
type Sizes = BTreeMap<String, (String, i64)>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_pod_gets_more_memory() -> Result<()> {
    let fixture = Fixture::take("moved").await?;
    scale(2).await?;
    let outcome = closed_loop(&fixture).await;
    scale(0).await?;
    outcome
}

/// The updater and the webhook; the recommender is there anyway.
async fn scale(replicas: usize) -> Result<()> {
    let replicas = format!("--replicas={replicas}");
    for deployment in ["deployment/plimsoll-updater", "deployment/plimsoll-webhook"] {
        kubectl(&format!("-n plimsoll-system scale {replicas} {deployment}")).await?;
    }
    Ok(())
}

async fn closed_loop(fixture: &Fixture) -> Result<()> {
    eventually("the updater hears the webhook", async || {
        let metrics = scrape(&leader(&fixture.client, UPDATER).await?).await?;
        let is_paused = metrics
            .lines()
            .any(|line| line.starts_with("vpa_updater_paused{") && line.ends_with(" 1"));
        ensure!(!is_paused, "it does nothing");
        Ok(())
    })
    .await?;
    let (sender, mut sizes) = watch::channel(Sizes::new());
    let _watch = follow(fixture.typed(), move |event| note_size(&sender, event));
    for (mode, how) in [
        ("Recreate", "a new pod"),
        ("InPlaceOrRecreate", "a resized pod"),
    ] {
        let prefix = mode.to_lowercase();
        let names: Vec<String> = (0..WORKLOADS)
            .map(|number| format!("{prefix}-{number}"))
            .collect();
        fixture
            .populate_with(
                &names,
                REQUESTED_MIB,
                &json!({"updateMode": mode, "minReplicas": 1}),
            )
            .await?;
        // Their first size, once all that the recommender knows of them is in the pods.
        for name in &names {
            fixture.settled(name).await?;
        }
        let mut latencies = Vec::new();
        for number in 0..WARM_UP + measured(KILLS) {
            let latency = grown(fixture, &mut sizes, &names[number % WORKLOADS], mode).await?;
            if number >= WARM_UP {
                latencies.push(latency);
            }
        }
        check(how, latencies, MOST)?;
    }
    Ok(())
}

/// Kills the pod of a workload; returns the time until this pod or, by the mode, another one had
/// more memory.
async fn grown(
    fixture: &Fixture,
    sizes: &mut watch::Receiver<Sizes>,
    workload: &str,
    mode: &str,
) -> Result<Duration> {
    let pod = fixture.running(workload).await?;
    let uid = pod.uid().context("it has one")?;
    let before = memory_in_effect(&pod).context("it has a size")?;
    let killed = Instant::now();
    fixture.kill(&pod).await?;
    let is_larger = |sizes: &Sizes| {
        sizes
            .get(workload)
            .is_some_and(|(_, memory)| *memory > before)
    };
    let larger = timeout(PATIENCE, sizes.wait_for(is_larger))
        .await
        .with_context(|| format!("{workload} grows"))??;
    let latency = killed.elapsed();
    let is_same = larger.get(workload).is_some_and(|(now, _)| *now == uid);
    ensure!(
        is_same == (mode == "InPlaceOrRecreate"),
        "{workload}: the same pod: {is_same}"
    );
    Ok(latency)
}

fn note_size(sender: &watch::Sender<Sizes>, event: Event<Pod>) {
    let (Event::Apply(pod) | Event::InitApply(pod)) = event else {
        return;
    };
    let workload = pod.labels().get("app").cloned();
    let is_live = pod.metadata.deletion_timestamp.is_none();
    if let (Some(workload), Some(memory), true) = (workload, memory_in_effect(&pod), is_live) {
        sender.send_modify(|sizes| {
            sizes.insert(workload, (pod.uid().unwrap_or_default(), memory));
        });
    }
}
