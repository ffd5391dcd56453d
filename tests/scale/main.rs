//! The suite, deployed as in production, before a large cluster on a real control plane: how long the
//! recommender's loop takes with young and with settled objects, and what each program uses.
//!
//! `VPAS` objects (10,000 if absent) with two pods each. `BEFORE`, the path of an earlier recommender,
//! measures that one first, in the same cluster. The numbers are of the release build; `make
//! bench-scale` makes it.

mod beside_upstream;
mod population;
mod recommender;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, Result};
use e2e::benchmark::{exit_code, in_sandbox, nodes_for, vpas};
use e2e::deployment::{Program, UPDATER, WEBHOOK, all_ready, process, replicas};
use e2e::process_usage::{Measurement, resident_text};
use e2e::{apply, hosted_programs, kubectl_in, program};
use sandbox::{Options, Sandbox};
use tokio::time::{Instant, sleep};

use crate::recommender::Age;

const DEFAULT_VPAS: usize = 10_000;
/// Time over which the use of webhook and updater is measured: two rounds of the updater.
const MEASURED: Duration = Duration::from_mins(2);

#[tokio::main]
async fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("beside-upstream") => exit_code(beside_upstream::run()).await,
        _ => exit_code(run()).await,
    }
}

async fn run() -> Result<()> {
    let vpas = vpas(DEFAULT_VPAS)?;
    let programs = hosted_programs(&[])?;
    let options = Options {
        nodes: nodes_for(vpas * population::REPLICAS)?,
        hosted_programs: programs.path().to_owned(),
        ..Options::new("scale", program("sandbox")?)
    };
    in_sandbox(options, async |sandbox| {
        measure(sandbox, vpas, programs.path()).await
    })
    .await
}

async fn measure(sandbox: &Sandbox, vpas: usize, programs: &Path) -> Result<()> {
    apply(sandbox, "deploy/crds").await?;
    let client = sandbox.client().await?;
    let started = Instant::now();
    population::make(&client, vpas).await?;
    println!(
        "  {vpas} VPA objects and {} pods after {:.0} s",
        vpas * population::REPLICAS,
        started.elapsed().as_secs_f64()
    );

    let before = env::var_os("BEFORE").filter(|path| !path.is_empty());
    let mut columns = Vec::new();
    if let Some(before) = before {
        let own = replace(programs, "recommender", Path::new(&before))?;
        for age in Age::ALL {
            let figures = recommender::measure(sandbox, vpas, age).await?;
            columns.push((format!("before, {age}"), figures));
        }
        replace(programs, "recommender", &own)?;
    }
    for age in Age::ALL {
        let figures = recommender::measure(sandbox, vpas, age).await?;
        columns.push((age.to_string(), figures));
    }
    println!(
        "\n  the recommender, averages of {} rounds",
        recommender::ROUNDS
    );
    recommender::print(&columns);

    println!("\n  the other programs, one replica each, in {MEASURED:?}");
    for (name, program) in [("webhook", WEBHOOK), ("updater", UPDATER)] {
        idle(sandbox, name, program).await?;
    }
    Ok(())
}

/// Lets the folder of hosted programs lead to another file of this name; returns where it led.
fn replace(folder: &Path, name: &str, other: &Path) -> Result<PathBuf> {
    let link = folder.join(name);
    let was = fs::read_link(&link).context("read the link of the program")?;
    fs::remove_file(&link).context("remove the link of the program")?;
    let other = other
        .canonicalize()
        .with_context(|| other.display().to_string())?;
    std::os::unix::fs::symlink(other, link).context("make the link of the program")?;
    Ok(was)
}

/// Starts a replica of a program and prints what it uses while no pod is updated or created.
async fn idle(sandbox: &Sandbox, name: &str, program: Program<'_>) -> Result<()> {
    let client = sandbox.client().await?;
    let scale = format!("-n plimsoll-system scale deployment plimsoll-{name} --replicas=1");
    kubectl_in(sandbox, &scale).await?;
    all_ready(&client, program.labels).await?;
    let replica = replicas(&client, program).await?;
    let process = process(&client, replica.first().context("no replica")?).await?;
    let processes = [(name, process)];
    let measurement = Measurement::start(sandbox, &processes)?;
    // Not a wait for something: the figures are of this time.
    sleep(MEASURED).await;
    let cores = measurement.used()?[name] / MEASURED.as_secs_f64();
    println!(
        "    {name:<24} {cores:.3} cores, {}",
        resident_text(process)?
    );
    Ok(())
}
