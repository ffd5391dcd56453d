//! The recommender, deployed as in production, before a large cluster on a real control plane: how
//! long its loop takes, and how much memory it holds.
//!
//! `VPAS` objects (10,000 if absent) with two pods each. The numbers are of the release build;
//! `make bench-scale` makes it.

mod beside_upstream;
mod population;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::{exit_code, in_sandbox, vpas};
use e2e::deployment::{RECOMMENDER, deploy, leader, metric, process, scrape};
use e2e::{apply, eventually_within, process_usage, program};
use sandbox::{Options, Sandbox};
use tokio::time::Instant;

const DEFAULT_VPAS: usize = 10_000;
/// A node of the sandbox takes 1,000 pods.
const PODS_PER_NODE: usize = 900;
/// Rounds over which the times are averaged, and as many times all statuses were written.
const ROUNDS: f64 = 3.0;
const PATIENCE: Duration = Duration::from_mins(20);
/// The step that happens once per round, and the one that ends when the last status of a round is
/// written.
const LOAD: &str = "LoadMetrics";
const UPDATE: &str = "UpdateVPAs";
/// Step that runs outside the loop, at its own pace.
const OUTSIDE_LOOP: &str = "MaintainCheckpoints";
const LATENCY: &str = "vpa_recommender_execution_latency_seconds";
const STATUS_WRITES: &str = "vpa_recommender_status_writes_total";
const CHECKPOINT_WRITES: &str = "vpa_recommender_checkpoint_writes_total";
const PROGRAM: &str = "recommender";
const WITH_RECOMMENDATION: &str = "has_recommendation=\"true\"";

#[tokio::main]
async fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("beside-upstream") => exit_code(beside_upstream::run()).await,
        _ => exit_code(run()).await,
    }
}

async fn run() -> Result<()> {
    let vpas = vpas(DEFAULT_VPAS)?;
    let nodes = (vpas * population::REPLICAS).div_ceil(PODS_PER_NODE).max(1);
    let options = Options {
        nodes: nodes.try_into().context("VPAS is too large")?,
        ..Options::new("scale", program("sandbox")?)
    };
    in_sandbox(options, async |sandbox| measure(sandbox, vpas).await).await
}

async fn measure(sandbox: &Sandbox, vpas: usize) -> Result<()> {
    apply(sandbox, "deploy/crds").await?;
    let client = sandbox.client().await?;
    let started = Instant::now();
    population::make(&client, vpas).await?;
    println!(
        "  {vpas} VPA objects and {} pods after {:.0} s",
        vpas * population::REPLICAS,
        seconds(started)
    );

    let started = Instant::now();
    deploy(sandbox, "tests/scale", RECOMMENDER.labels).await?;
    let leader = leader(&client, RECOMMENDER).await?;
    eventually_within(PATIENCE, "every object has a recommendation", async || {
        let count = sum(
            &scrape(&leader).await?,
            "vpa_recommender_vpa_objects_count",
            WITH_RECOMMENDATION,
        )?;
        ensure!(count as usize >= vpas, "{count} of {vpas} have one");
        Ok(())
    })
    .await?;
    println!(
        "  the recommender was deployed, and all had their first recommendation, {:.0} s later",
        seconds(started)
    );

    let process = process(&client, &leader).await?;
    let writes = async || -> Result<f64> {
        Ok(metric(&leader, STATUS_WRITES).await? + metric(&leader, CHECKPOINT_WRITES).await?)
    };
    let started = Instant::now();
    let (used_before, written_before) = (
        process_usage::processor_seconds(sandbox, &[(PROGRAM, process)])?,
        writes().await?,
    );
    let before = steps(&scrape(&leader).await?)?;
    let times = |steps: &BTreeMap<String, Step>, name| {
        steps.get(name).map_or(0.0, |step: &Step| step.count)
    };
    eventually_within(PATIENCE, "some more rounds are over", async || {
        let now = steps(&scrape(&leader).await?)?;
        for name in [LOAD, UPDATE] {
            let done = times(&now, name) - times(&before, name);
            ensure!(done >= ROUNDS, "{name}: {done} times");
        }
        Ok(())
    })
    .await?;
    let after = steps(&scrape(&leader).await?)?;
    let took = seconds(started);
    let (used_after, written_after) = (
        process_usage::processor_seconds(sandbox, &[(PROGRAM, process)])?,
        writes().await?,
    );
    println!("\n  step, seconds on average");
    let mut full_loop = 0.0;
    for (name, step) in after.iter().filter(|(name, _)| *name != "total") {
        let earlier = before.get(name).copied().unwrap_or_default();
        let times = step.count - earlier.count;
        if times > 0.0 {
            let average = (step.sum - earlier.sum) / times;
            if name != OUTSIDE_LOOP {
                full_loop += average;
            }
            println!("    {name:<22} {average:>8.3}   ({times} times)");
        }
    }
    println!(
        "    {:<22} {full_loop:>8.3}   (without {OUTSIDE_LOOP}, which runs outside it)",
        "full loop"
    );
    let containers = metric(&leader, "vpa_recommender_aggregate_container_states_count").await?;
    println!("  {containers} histories of like containers");
    let rate = (written_after - written_before) / took;
    println!(
        "  meanwhile ({took:.0} s) {rate:.0} statuses and checkpoints were written per second, and of the machine's cores"
    );
    for (name, after) in used_after {
        println!(
            "    {name:<24} {:>5.2}",
            (after - used_before.get(&name).copied().unwrap_or(0.0)) / took
        );
    }
    let (now, peak) = process_usage::resident(process)?;
    println!("  resident memory {now:.0} MB, at most {peak:.0} MB");
    Ok(())
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

#[derive(Debug, Clone, Copy, Default)]
struct Step {
    sum: f64,
    count: f64,
}

/// Seconds of each step of the loop so far, by name.
fn steps(metrics: &str) -> Result<BTreeMap<String, Step>> {
    let mut steps: BTreeMap<String, Step> = BTreeMap::new();
    for line in metrics.lines() {
        let Some((kind, rest)) = line
            .strip_prefix(LATENCY)
            .and_then(|rest| rest.split_once("{step=\""))
        else {
            continue;
        };
        let Some((name, value)) = rest.split_once("\"} ") else {
            continue;
        };
        let value: f64 = value.parse().with_context(|| line.to_owned())?;
        match kind {
            "_sum" => steps.entry(name.to_owned()).or_default().sum = value,
            "_count" => steps.entry(name.to_owned()).or_default().count = value,
            _ => {}
        }
    }
    Ok(steps)
}

/// The sum over the series of a metric that have such a label.
fn sum(metrics: &str, name: &str, label: &str) -> Result<f64> {
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with(name) && line.contains(label));
    let values = lines.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>());
    values
        .sum::<Result<f64, _>>()
        .with_context(|| format!("read {name}"))
}
