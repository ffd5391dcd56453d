//! The main job on a real control plane, in three steps: a recorded day of usage is replayed fast
//! for three workloads with plainly wrong requests; their pods are updated to the sizes of that
//! day; and a fourth workload is scaled up before its daily rise. Recommender, updater, webhook and
//! adapter are deployed as in production. Every printed number is read from the cluster; a missed
//! deadline ends the demonstration with an error.
//!
//! `KEEP=1` leaves everything running and prints commands to explore it.

mod day;
mod observe;
mod pod_updates;
mod replicas;
mod report;
mod scale_ahead;
mod setup;

use std::env;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::exit_code;
use e2e::program;
use sandbox::{Options, Sandbox};
use tokio::time::Instant;

use crate::observe::NAMESPACE;

/// Name of the sandbox, so that `KEEP=1` leaves something to refer to.
const NAME: &str = "demo";

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run()).await
}

async fn run() -> Result<()> {
    let keep = env::var_os("KEEP").is_some_and(|value| !value.is_empty() && value != "0");
    let started = Instant::now();
    let options = Options {
        prometheus: true,
        ..Options::new(NAME, program("sandbox")?)
    };
    let mut sandbox = Sandbox::up(options, |step| println!("  {step}")).await?;
    let sandbox_program = program("sandbox")?;
    let down = format!("{} down --name {NAME}", sandbox_program.display());
    ensure!(
        sandbox.is_owned(),
        "an earlier demonstration is still up; take it down with\n  {down}"
    );
    println!(
        "  A Kubernetes control plane is up after {:.0} s",
        started.elapsed().as_secs_f64()
    );
    if let Err(error) = show(&sandbox).await {
        // The sandbox ends with this process, but its logs stay.
        eprintln!(
            "Logs are in {} until the next demonstration",
            sandbox.logs_dir().display()
        );
        return Err(error);
    }
    println!("\nFinished in {:.0} s.", started.elapsed().as_secs_f64());
    if keep {
        sandbox.detach()?;
        println!(
            "The sandbox keeps running. Explore it with\n  eval \"$({} env --name {NAME})\"",
            sandbox_program.display()
        );
        println!(
            "  kubectl get vpa,ehpa,hpa,pods -n {NAMESPACE}\n  kubectl get events -n {NAMESPACE}"
        );
        println!(
            "  kubectl logs -n plimsoll-system deploy/plimsoll-recommender\nand take it down with\n  {down}"
        );
        return Ok(());
    }
    sandbox.down().await
}

async fn show(sandbox: &Sandbox) -> Result<()> {
    let client = sandbox.client().await?;
    setup::deploy(sandbox)
        .await
        .context("deploy the suite and the workloads")?;
    // Usage goes on with another such day after the first, so that the pods of the second step use
    // something.
    let _players = day::play(&client)?;
    day::watch(&client).await.context("1. compute sizes")?;
    pod_updates::watch(&client)
        .await
        .context("2. update pods")?;
    scale_ahead::watch(sandbox, &client)
        .await
        .context("3. scale before the rise")
}
