//! Upstream's own end-to-end specs of its VPA, unmodified, against our programs in upstream's own
//! manifests; `PROGRAMS=upstream` runs them against upstream's, as a yardstick. `make conformance` runs
//! it.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `AUTOSCALER` | a checkout of kubernetes/autoscaler, or its folder `vertical-pod-autoscaler` | |
//! | `SUITE` | one suite, or `fast`: two suites and a spec of each of three others; `kubernetes` or one of its groups | all suites of upstream |
//! | `FOCUS` | a regular expression that the names of the specs match | all specs |
//! | `NODE` | `simulated`, `real`, or `kind`: the cluster that kind has made, with `KIND_CLUSTER_NAME` | `simulated` |
//! | `PROGRAMS` | `ours`; `upstream`, which needs real nodes; for `kubernetes` `none` | `ours` |
//!
//! Each suite has a sandbox of its own. Those with simulated nodes run side by side, and those with real
//! nodes as far as cores carry; in the cluster of kind one runs after the other. The results are in a folder
//! of `target/conformance/results`: a log, a JSON and a `JUnit` file per suite. A run of all specs is
//! recorded in `docs/conformance.md`.

mod cluster;
mod external_metrics;
mod ginkgo;
mod images;
mod kind;
mod kubernetes;
mod page;
mod report;
mod simulated;
mod source;
mod suites;

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::benchmark::{exit_code, in_sandbox};
use e2e::{options_named, real_node_options};
use futures::future::try_join_all;
use sandbox::Options;
use tokio::sync::Semaphore;

use self::cluster::{Cluster, Nodes};
use self::images::Programs;
use self::report::Report;
use self::source::Source;
use self::suites::{Run, selected};

/// Name of the sandbox, or its first part.
const NAME: &str = "conformance";
/// Most letters of a sandbox's name.
const LONGEST_NAME: usize = 32;

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run()).await
}

/// The value of a variable of the environment; `None` if it is not set, or empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

async fn run() -> Result<()> {
    let (suite, focus) = (variable("SUITE"), variable("FOCUS"));
    if let Some(suite) = suite.as_deref().filter(|suite| kubernetes::has(suite)) {
        return Box::pin(kubernetes::run(suite, focus.as_deref())).await;
    }
    let checkout = variable("AUTOSCALER").context(
        "AUTOSCALER names no checkout of upstream's specs. Get one with\n  \
         git clone --depth=1 https://github.com/kubernetes/autoscaler",
    )?;
    let programs = match variable("PROGRAMS").as_deref() {
        None | Some("ours") => Programs::Ours,
        Some("upstream") => Programs::Upstream,
        Some(other) => bail!("PROGRAMS={other}: it is `ours` or `upstream`"),
    };
    let nodes = match variable("NODE").as_deref() {
        None | Some("simulated") => Nodes::Simulated,
        Some("real") => Nodes::Real,
        Some("kind") => Nodes::Kind,
        Some(other) => bail!("NODE={other}: it is `simulated`, `real` or `kind`"),
    };
    // Upstream's admission controller would listen on all addresses of the machine.
    ensure!(
        nodes != Nodes::Simulated || programs == Programs::Ours,
        "PROGRAMS=upstream needs NODE=real or NODE=kind"
    );
    let mut runs = selected(suite.as_deref(), focus.as_deref())?;
    if nodes != Nodes::Simulated {
        // The containers cannot reach the sandbox's Prometheus.
        runs.retain(|run| !run.suite.external_metrics);
    }
    if nodes == Nodes::Real {
        let missing = sandbox::missing_for_real_node();
        ensure!(missing.is_empty(), "{}", missing.join("; "));
    }
    let source = Source::build(Path::new(&checkout), programs).await?;
    let report = Mutex::default();
    let kubernetes = OnceLock::new();
    let run_all = async |runs: &[Run], cluster: Cluster<'_>| {
        let version = cluster.version().await?;
        kubernetes.get_or_init(|| version);
        for run in runs {
            cluster.install(run.suite).await?;
            let begun = Instant::now();
            let found = cluster.run(run).await?;
            lock(&report).add(run.suite.name, &found, begun.elapsed())?;
        }
        Ok(())
    };
    if nodes == Nodes::Kind {
        let folder = tempfile::tempdir()?;
        let cluster = Cluster::in_kind(folder.path(), &source, programs).await?;
        run_all(&runs, cluster).await?;
    } else {
        let hosted = simulated::programs(&source.programs)?;
        // The pods of a suite on a real node use a core, or more.
        let cores = u32::try_from(available_parallelism()?.get())?;
        let free_cores = Semaphore::new(cores as usize);
        let parts = runs.iter().map(async |run| {
            let needed = match nodes {
                Nodes::Real if run.suite.needs_all_cores => cores,
                Nodes::Real => 1,
                _ => 0,
            };
            let _taken = free_cores.acquire_many(needed).await?;
            let mut name = format!("{NAME}-{}", run.suite.name);
            name.truncate(LONGEST_NAME);
            let options = match nodes {
                Nodes::Real => real_node_options(name)?,
                _ => Options {
                    hosted_programs: hosted.path().to_owned(),
                    prometheus: run.suite.external_metrics,
                    ..options_named(name)?
                },
            };
            in_sandbox(options, async |sandbox| {
                let cluster = Cluster::in_sandbox(sandbox, nodes, &source, programs).await?;
                run_all(std::slice::from_ref(run), cluster).await
            })
            .await
        });
        try_join_all(parts).await?;
    }
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    if suite.is_none() && focus.is_none() {
        let build = match programs {
            Programs::Upstream => "",
            Programs::Ours if cfg!(debug_assertions) => ", debug build",
            Programs::Ours => ", release build",
        };
        let title = format!("{nodes}, {programs}{build}");
        let kubernetes = kubernetes.into_inner().unwrap_or_default();
        let specs = page::commit(Path::new(&checkout));
        page::write(&title, &page::section(&kubernetes, &specs, &mut report))?;
    }
    report.finish()
}

fn lock(report: &Mutex<Report>) -> MutexGuard<'_, Report> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}
