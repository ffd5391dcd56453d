//! The main job in two minutes: a real control plane, three workloads that ask for plainly wrong sizes, a recorded day of
//! usage played fast, and the recommender, deployed as in production, writing its VPA objects.
//!
//! `KEEP=1` leaves everything running and says how to look around.

mod observe;
mod report;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};
use e2e::measuring::exit_code;
use e2e::{eventually, kubectl_in, program, repository};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use sandbox::{Columns, Options, Play, Sandbox, Trace};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::observe::{NAMESPACE, WORKLOADS};

/// Name of the sandbox, so that `KEEP=1` leaves something to refer to.
const NAME: &str = "demo";
/// Seconds of the recorded day per second of the demonstration: a day takes two minutes, as `deploy/overlays/demo` expects.
const SPEED: f64 = 720.0;
const DAY: Duration = Duration::from_mins(2);
/// How often the table is drawn; further apart where it cannot be redrawn in place.
const REFRESH: Duration = Duration::from_secs(1);
const REFRESH_PLAIN: Duration = Duration::from_secs(15);
/// A pod of the recommender is up within this time, or something is wrong.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run()).await
}

async fn run() -> Result<()> {
    let keep = env::var_os("KEEP").is_some_and(|value| !value.is_empty() && value != "0");
    let started = Instant::now();
    let mut sandbox = Sandbox::up(Options::new(NAME, program("sandbox")?), |step| println!("  {step}")).await?;
    println!("  a Kubernetes control plane is up after {:.0} s", started.elapsed().as_secs_f64());
    let shown = show(&sandbox).await;
    if keep && shown.is_ok() {
        sandbox.detach()?;
        println!("Left running. Look around with\n  eval \"$({} env --name {NAME})\"", program("sandbox")?.display());
        println!("  kubectl get vpa -n {NAMESPACE}\n  kubectl logs -n plimsoll-system deploy/plimsoll-recommender");
        println!("and take it down with\n  {} down --name {NAME}", program("sandbox")?.display());
        return shown;
    }
    if shown.is_err() {
        eprintln!("Logs until now are in {}", sandbox.logs_dir().display());
    }
    sandbox.down().await?;
    shown
}

async fn show(sandbox: &Sandbox) -> Result<()> {
    let client = sandbox.client().await?;
    apply(sandbox, "-k", "deploy/overlays/demo").await?;
    apply(sandbox, "-f", "tests/demo/workloads.yaml").await?;
    await_available(&client).await?;
    println!("  the recommender runs as deployed from deploy/overlays/demo, under its own ServiceAccount\n");
    let cancel = CancellationToken::new();
    let _stop_playing = cancel.clone().drop_guard();
    let mut players = JoinSet::new();
    for name in WORKLOADS {
        let play = recorded_day(name)?;
        let (client, cancel) = (client.clone(), cancel.clone());
        players.spawn(async move { play.run(client, cancel).await });
    }
    watch(&client).await?;
    while let Some(player) = players.try_join_next() {
        player.context("join")?.context("play the recorded day")?;
    }
    let rows = observe::rows(&client).await?;
    println!("\n{}", report::summary(&rows));
    if let Some(row) = rows.iter().find(|row| row.target.is_none()) {
        bail!("{} got no recommendation", row.name);
    }
    Ok(())
}

/// Draws the table until the recorded day is over.
async fn watch(client: &Client) -> Result<()> {
    let terminal = io::stdout().is_terminal();
    let mut ticks = interval(if terminal { REFRESH } else { REFRESH_PLAIN });
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let started = Instant::now();
    let mut drawn_lines = 0;
    loop {
        ticks.tick().await;
        let elapsed = started.elapsed().min(DAY);
        let rows = observe::rows(client).await?;
        let table = report::table(24.0 * elapsed.div_duration_f64(DAY), &rows);
        if terminal && drawn_lines > 0 {
            // Up over the last table, and clear from there.
            print!("\x1b[{drawn_lines}A\x1b[J");
        }
        drawn_lines = table.lines().count();
        print!("{table}");
        io::stdout().flush()?;
        if elapsed == DAY {
            return Ok(());
        }
    }
}

async fn await_available(client: &Client) -> Result<()> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), "plimsoll-system");
    eventually("the recommender is available", PATIENCE, async || {
        let status = deployments.get_status("plimsoll-recommender").await?.status.unwrap_or_default();
        let (available, wanted) = (status.available_replicas.unwrap_or(0), status.replicas.unwrap_or(0));
        if available < 1 || available < wanted {
            bail!("{available} of {wanted} replicas are available");
        }
        Ok(())
    })
    .await
}

/// A day of one machine, played by one workload's pods.
fn recorded_day(workload: &str) -> Result<Play> {
    let path = repository().join(format!("tests/fixtures/traces/{workload}.csv"));
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let trace = Trace::parse(&text, &Columns::default()).with_context(|| format!("read {}", path.display()))?;
    let target = format!("deployment/{workload}").parse()?;
    Ok(Play { trace, target, namespace: NAMESPACE.to_owned(), speed: SPEED, repeat: false })
}

async fn apply(sandbox: &Sandbox, flag: &str, path: &str) -> Result<()> {
    let path = repository().join(path);
    let path = path.to_str().context("the repository's path is text")?;
    kubectl_in(sandbox, &["apply", "--server-side", flag, path]).await.map(drop)
}
