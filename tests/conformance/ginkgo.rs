//! Runs programs of specs.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use e2e::repository;
use serde_json::Value;
use tokio::process::Command;

/// A cluster for specs, and the folder of their results.
pub(crate) struct Ginkgo<'a> {
    /// A folder with ginkgo and the programs of the specs.
    pub(crate) programs: &'a Path,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) results: PathBuf,
}

pub(crate) struct Specs<'a> {
    pub(crate) name: &'a str,
    pub(crate) program: &'a str,
    /// A regular expression that the names of the specs match.
    pub(crate) focus: &'a str,
    /// Number of specs that run at the same time.
    pub(crate) processes: usize,
    /// Time after which the run is ended.
    pub(crate) limit: &'a str,
    pub(crate) arguments: &'a [&'a str],
}

impl Ginkgo<'_> {
    /// Runs specs, and returns ginkgo's report of them.
    pub(crate) async fn run(&self, specs: &Specs<'_>) -> Result<Value> {
        let name = specs.name;
        fs::create_dir_all(&self.results)
            .with_context(|| format!("create {}", self.results.display()))?;
        let log = self.results.join(format!("{name}.log"));
        println!("{name}: the log is {}", log.display());
        let report = self.results.join(format!("{name}.json"));
        // That of an earlier run.
        _ = fs::remove_file(&report);
        let output = fs::File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let mut kubeconfig = OsStr::new("--kubeconfig=").to_owned();
        kubeconfig.push(&self.kubeconfig);
        let mut ginkgo = Command::new(self.programs.join("ginkgo"));
        ginkgo
            .arg(format!("--procs={}", specs.processes))
            .arg(format!("--timeout={}", specs.limit))
            .args(["--no-color", "--keep-going"])
            .arg(format!("--output-dir={}", self.results.display()))
            .arg(format!("--json-report={name}.json"))
            .arg(format!("--junit-report={name}.xml"))
            .arg(format!("--focus={}", specs.focus))
            .arg(self.programs.join(specs.program))
            .arg("--")
            .arg(kubeconfig)
            .arg("--disable-log-dump")
            .args(specs.arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true);
        // It fails when a spec does, which the report tells.
        ginkgo.status().await.context("run ginkgo")?;
        let found = report_of(&self.results, name)?;
        found.with_context(|| format!("{name}: no report was written, see {}", log.display()))
    }
}

/// Ginkgo's report with this name in a folder of results, if there is one.
pub(crate) fn report_of(results: &Path, name: &str) -> Result<Option<Value>> {
    let path = results.join(format!("{name}.json"));
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    let report = serde_json::from_slice(&text);
    report
        .map(Some)
        .with_context(|| format!("parse {}", path.display()))
}

pub(crate) fn results_of(kind: &str) -> PathBuf {
    repository().join("target/conformance/results").join(kind)
}
