//! Upstream's own end-to-end specs of its VPA, unmodified, against our programs in upstream's own
//! manifests; `PROGRAMS=upstream` runs them against upstream's, as a yardstick. `make conformance` runs
//! it.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `AUTOSCALER` | a checkout of kubernetes/autoscaler, or its folder `vertical-pod-autoscaler` | |
//! | `SUITE` | one suite, or `fast`: two suites and a spec of each of three others | all suites |
//! | `FOCUS` | a regular expression that the names of the specs match | all specs |
//! | `PROGRAMS` | `ours` or `upstream` | `ours` |
//!
//! All specs run in one sandbox with a real node. The results are in `target/conformance/results`: a log,
//! a JSON and a `JUnit` file per suite.

mod cluster;
mod images;
mod report;
mod source;
mod suites;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::benchmark::{exit_code, in_sandbox};
use e2e::real_node_options;

use self::cluster::Cluster;
use self::images::Programs;
use self::report::Report;
use self::source::Source;
use self::suites::selected;

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run()).await
}

/// The value of a variable of the environment; `None` if it is not set, or empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

async fn run() -> Result<()> {
    let checkout = variable("AUTOSCALER").context(
        "AUTOSCALER names no checkout of upstream's specs. Get one with\n  \
         git clone --depth=1 https://github.com/kubernetes/autoscaler",
    )?;
    let programs = match variable("PROGRAMS").as_deref() {
        None | Some("ours") => Programs::Ours,
        Some("upstream") => Programs::Upstream,
        Some(other) => bail!("PROGRAMS={other}: it is `ours` or `upstream`"),
    };
    let runs = selected(variable("SUITE").as_deref(), variable("FOCUS").as_deref())?;
    let missing = sandbox::missing_for_real_node();
    ensure!(missing.is_empty(), "{}", missing.join("; "));
    let source = Source::build(Path::new(&checkout), programs)?;
    let options = real_node_options("conformance".to_owned())?;
    in_sandbox(options, async |sandbox| {
        let cluster = Cluster::start(sandbox, &source, programs).await?;
        let mut report = Report::default();
        for run in &runs {
            cluster.install(run.suite).await?;
            report.add(run.suite.name, &cluster.run(run).await?)?;
        }
        report.finish()
    })
    .await
}
