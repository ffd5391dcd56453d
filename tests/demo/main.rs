//! The main job on a real control plane, in five steps: a recorded day of usage is replayed fast
//! for three workloads with plainly wrong requests; their pods are updated to the sizes of that
//! day; a pod gets more memory after an OOM kill; a fourth workload is scaled up before its daily
//! rise; and a busy node gets no more pods. The suite is installed by its chart. The OOM kill
//! happens on a real kubelet; where none can run, it is reported as by one. The CPU of nodes with
//! the pods of the Job is computed; every other printed number is read from the cluster. A missed
//! deadline ends the demonstration with an error.
//!
//! `KEEP=1` leaves everything running and prints commands to explore it. `SCREENSHOTS` names a folder
//! for pictures of the pages, as the documents have them.

mod dashboards;
mod day;
mod kernel_kill;
mod observe;
mod oom_kill;
mod page;
mod placement;
mod pod_updates;
mod replicas;
mod report;
mod scale_ahead;
mod screenshots;
mod setup;
mod story;

use std::env;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::exit_code;
use e2e::{Prometheus, can_run_real_node, program};
use sandbox::{Options, Sandbox};
use tokio::time::Instant;

use crate::observe::NAMESPACE;
use crate::story::Story;

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
    let load_aware = setup::deploy(sandbox)
        .await
        .context("install the suite and the workloads")?;
    let prometheus = Prometheus::scrape_programs(sandbox).await?;
    dashboards::forward_metrics(sandbox, &client)
        .await
        .context("start another provider of metrics")?;
    // Usage goes on with another such day after the first, so that the pods of the second step use
    // something.
    let _players = day::play(&client)?;
    let story = Story::record(&client);
    let rows = day::watch(&client).await.context("1. compute sizes")?;
    let updated = pod_updates::watch(&client)
        .await
        .context("2. update pods")?;
    let healed = if can_run_real_node()? {
        Box::pin(kernel_kill::watch()).await
    } else {
        Box::pin(oom_kill::watch(&client)).await
    };
    let healed = healed.context("3. more memory after an OOM kill")?;
    let scaled = scale_ahead::watch(sandbox, &client)
        .await
        .context("4. scale before the rise")?;
    let placed = placement::watch(&client, &load_aware)
        .await
        .context("5. place by load")?;
    let panels = dashboards::check(&client, &prometheus)
        .await
        .context("query the dashboards")?;
    let page = page::write(&rows).await.context("write the page")?;
    let story = story.write(&client, &healed, &placed).await;
    let story = story.context("write what happened")?;
    println!(
        "\n{}  panels     {panels}\n  pages      {}, the recorded day by plimsoll report\n             {}, what happened here",
        report::figures(&updated, &healed, &scaled, &placed),
        page.display(),
        story.display()
    );
    let folder = env::var_os("SCREENSHOTS").filter(|folder| !folder.is_empty());
    if let Some(folder) = folder {
        screenshots::write(sandbox, &prometheus, [&page, &story], folder.as_ref())
            .await
            .context("write screenshots")?;
    }
    Ok(())
}
