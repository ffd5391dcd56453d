//! The updater and the webhook, deployed as in production, before 1,000 VPA objects (`VPAS`) with
//! two pods each that all have to be evicted: how long that takes, until each of them was replaced
//! with its new size. One of two pods may be away at a time.
//!
//! Upstream's own benchmark of the same says 98.8 s for half of the pods
//! (`test/benchmark/README.md`, `xxlarge`). The numbers are of the release build;
//! `make bench-updater` makes it. The output also shows the bounds: the processor time of each
//! process, and the time of the same evictions without any decisions.

mod baseline;
mod population;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::benchmark::{exit_code, in_sandbox, nodes_for, vpas};
use e2e::deployment::{
    Replica, SYSTEM, UPDATER, WEBHOOK, deploy, leader, metric, process, replicas, scrape, sum_with,
};
use e2e::process_usage::Measurement;
use e2e::{apply, eventually_within, kubectl_in, program, until_within};
use sandbox::{Options, Sandbox};
use tokio::time::{Instant, timeout};

const DEFAULT_VPAS: usize = 1_000;
const PATIENCE: Duration = Duration::from_mins(10);
const STOP: &str = "plimsoll-stop";

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run()).await
}

async fn run() -> Result<()> {
    let vpas = vpas(DEFAULT_VPAS)?;
    // Twice as many as run at a time: the old ones are still there for a moment.
    let options = Options {
        nodes: nodes_for(2 * vpas * population::REPLICAS)?,
        ..Options::new("evictions", program("sandbox")?)
    };
    in_sandbox(options, async |sandbox| measure(sandbox, vpas).await).await
}

async fn measure(sandbox: &Sandbox, vpas: usize) -> Result<()> {
    apply(sandbox, "deploy/crds").await?;
    for program in [UPDATER, WEBHOOK] {
        deploy(sandbox, "tests/evictions", program.labels).await?;
    }
    kubectl_in(sandbox, &format!("-n {SYSTEM} create configmap {STOP}")).await?;
    let client = sandbox.client().await?;
    let updater = leader(&client, UPDATER).await?;
    let Some(webhook) = replicas(&client, WEBHOOK).await?.pop() else {
        bail!("no webhook")
    };
    let pods = vpas * population::REPLICAS;
    let started = Instant::now();
    let mut population = population::make(&client, vpas).await?;
    println!(
        "  {vpas} VPA objects and {pods} pods after {:.0} s",
        started.elapsed().as_secs_f64()
    );
    eventually_within(PATIENCE, "only the switch pauses the updater", async || {
        let metrics = scrape(&updater).await?;
        ensure!(
            metrics.contains("vpa_updater_paused{reason=\"stopped\"} 1"),
            "it does not"
        );
        Ok(())
    })
    .await?;

    let processes = [
        ("updater", process(&client, &updater).await?),
        ("webhook", process(&client, &webhook).await?),
        ("this measurement", std::process::id()),
    ];
    let measurement = Measurement::start(sandbox, &processes)?;
    kubectl_in(sandbox, &format!("-n {SYSTEM} delete configmap {STOP}")).await?;
    timeout(PATIENCE, population.evicted(pods / 2))
        .await
        .context("half are evicted")??;
    let half = measurement.seconds();
    timeout(PATIENCE, population.evicted(pods))
        .await
        .context("all are evicted")??;
    let evicted = measurement.seconds();
    timeout(PATIENCE, population.renewed(pods))
        .await
        .context("all are replaced")??;
    let renewed = measurement.seconds();
    let used = measurement.used()?;
    until_within(
        PATIENCE,
        "the updater has nothing left to do",
        async || {
            anyhow::Ok(
                metric(&updater, "vpa_updater_actions_in_flight").await?
                    + metric(&updater, "vpa_updater_actions_waiting").await?,
            )
        },
        |left| *left == 0.0,
    )
    .await?;
    let count = metric(&updater, "vpa_updater_evicted_pods_total").await?;
    println!(
        "\n  half of {count} pods evicted after {half:.2} s, all after {evicted:.2} s, the last one replaced with its new size after {renewed:.2} s"
    );
    println!(
        "  fewest pods of a workload that were ready at a time: {}",
        population.fewest()
    );
    report(&updater).await?;
    print_use(&used, &processes, renewed)?;
    ensure!(count >= pods as f64, "{count} of {pods} were evicted");
    ensure!(
        population.fewest() >= 1,
        "a workload had no pod that was ready"
    );
    drop(updater);
    measure_by_hand(sandbox, &client, &population, renewed).await
}

/// Stops the updater, and evicts all pods without it. `renewed`: seconds until the last pod was
/// replaced with the updater.
async fn measure_by_hand(
    sandbox: &Sandbox,
    client: &kube::Client,
    population: &population::Population,
    renewed: f64,
) -> Result<()> {
    kubectl_in(
        sandbox,
        "-n plimsoll-system scale deployment plimsoll-updater --replicas=0",
    )
    .await?;
    let by_hand = baseline::evict_all(client, population, PATIENCE)
        .await
        .context("evict by hand")?;
    let [evicted_by_hand, renewed_by_hand] =
        [by_hand.evicted, by_hand.renewed].map(|time| time.as_secs_f64());
    println!(
        "  the same by hand, without the updater: evicted after {evicted_by_hand:.2} s, replaced after {renewed_by_hand:.2} s; with it {:.2} times as long",
        renewed / renewed_by_hand
    );
    Ok(())
}

/// Processor time of each process, and the time that remains when everything of ours costs nothing.
fn print_use(used: &BTreeMap<String, f64>, ours: &[(&str, u32)], seconds: f64) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get() as f64;
    println!("  meanwhile, of the machine's {cores} cores");
    for (name, used) in used {
        println!("    {name:<24} {:>5.2}   ({used:.2} s)", used / seconds);
    }
    let is_ours = |name: &str| ours.iter().any(|(own, _)| *own == name);
    let all: f64 = used.values().sum();
    let control_plane: f64 = used
        .iter()
        .filter(|(name, _)| !is_ours(name))
        .map(|(_, used)| used)
        .sum();
    println!(
        "    all of them              {:>5.2}   ({:.0} % of the machine)",
        all / seconds,
        100.0 * all / seconds / cores
    );
    println!(
        "  the control plane alone needs {control_plane:.1} s of processor time for this: {:.1} s on all cores",
        control_plane / cores
    );
    Ok(())
}

async fn report(updater: &Replica) -> Result<()> {
    let metrics = scrape(updater).await?;
    println!("  step of the updater's loop, seconds in all, times");
    for step in ["ListPods", "FilterPods", "EvictPods", "total"] {
        let [sum, count] = ["sum", "count"].map(|kind| {
            let series = format!("vpa_updater_execution_latency_seconds_{kind}");
            sum_with(&metrics, &series, &format!("step=\"{step}\""))
        });
        println!("    {step:<12} {sum:>8.3} {count:>8}");
    }
    let [sum, count] = ["sum", "count"].map(|kind| {
        let series = format!("rest_client_request_duration_seconds_{kind}");
        sum_with(&metrics, &series, "verb=\"POST\"")
    });
    println!(
        "  the API server took {:.0} ms for an eviction or an event on average, {count} of them",
        1e3 * sum / count
    );
    Ok(())
}
