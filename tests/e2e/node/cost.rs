//! Processor time and memory of the programs as containers, as the kubelet measures them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::number;
use e2e::deployment::SYSTEM;
use e2e::eventually_within;
use serde_json::json;

use super::fixture::{Fixture, container, or_skip};

/// Minutes that are measured: `make bench-node` sets this variable. Other runs measure nothing.
const MINUTES: &str = "PLIMSOLL_NODE_MINUTES";
/// Deployments of two pods, each with a VPA object.
const DEPLOYMENTS: usize = 25;

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Processor time since its start.
    seconds: f64,
    working_set_bytes: f64,
    /// Time of the measurement.
    at_ms: f64,
}

/// Usage of the suite's containers by pod and container, from the kubelet's cAdvisor.
async fn measure(cluster: &Fixture) -> Result<BTreeMap<(String, String), Usage>> {
    let path = "/api/v1/nodes/node-real/proxy/metrics/resource";
    let request = http::Request::get(path).body(Vec::new())?;
    let text = cluster.client.request_text(request).await?;
    let mut all: BTreeMap<_, Usage> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("container_")) {
        let (series, rest) = line.split_once("} ").context("a series has labels")?;
        let (name, labels) = series.split_once('{').context("a series has labels")?;
        let label = |wanted: &str| {
            let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
            let mut values = pairs.filter(|(name, _)| *name == wanted);
            values
                .next()
                .map_or("", |(_, value)| value.trim_matches('"'))
        };
        if label("namespace") != SYSTEM {
            continue;
        }
        let mut numbers = rest.split(' ').map(str::parse::<f64>);
        let value = numbers.next().context("a series has a value")??;
        let key = (label("pod").to_owned(), label("container").to_owned());
        let usage = all.entry(key).or_default();
        match name {
            "container_cpu_usage_seconds_total" => {
                usage.seconds = value;
                usage.at_ms = numbers.next().context("a sample has a time")??;
            }
            "container_memory_working_set_bytes" => usage.working_set_bytes = value,
            _ => {}
        }
    }
    Ok(all)
}

#[tokio::test]
async fn processor_time_and_memory_of_the_programs_in_containers() -> Result<()> {
    let Some(minutes) = number::<u64>(MINUTES)? else {
        return Ok(());
    };
    let cluster = or_skip!(Fixture::alone("cost"));
    let resources = json!({"requests": {"cpu": "5m", "memory": "10Mi"}});
    for index in 0..DEPLOYMENTS {
        let name = format!("app-{index}");
        let pod = json!({"containers": [container("app", &["--memory-mib=5"], &resources)]});
        cluster.deploy(&name, 2, &pod).await?;
        let policy = json!({"containerName": "*"});
        cluster
            .autoscale(&name, "InPlaceOrRecreate", policy)
            .await?;
    }
    let first = measure(&cluster).await?;
    let limit = Duration::from_mins(minutes + 2);
    let last = eventually_within(limit, "the time has passed", async || {
        let last = measure(&cluster).await?;
        let is_over = |(key, usage): (&_, &Usage)| {
            let since = first.get(key).map_or(0.0, |it: &Usage| it.at_ms);
            usage.at_ms - since >= (60_000 * minutes) as f64
        };
        ensure!(last.iter().all(is_over), "not yet");
        Ok(last)
    })
    .await?;
    println!("| program (a replica) | cores | working set |\n|---|---|---|");
    for ((pod, container), usage) in &last {
        let key = (pod.clone(), container.clone());
        let before = first.get(&key).context("a program was replaced")?;
        let cores = 1000.0 * (usage.seconds - before.seconds) / (usage.at_ms - before.at_ms);
        let mib = usage.working_set_bytes / f64::from(1 << 20);
        println!("| {container} | {cores:.4} | {mib:.0} MiB |");
    }
    Ok(())
}
