//! A second kube-scheduler as a process of a test, with the rights of the sandbox's own.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use sandbox::{Component, Sandbox};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::certificates::extender_ca_file;
use crate::deployment::Replica;
use crate::repository;

/// Configuration of kube-scheduler with the extender, as it is installed.
const WITH_EXTENDER: &str = "deploy/components/extender/kube-scheduler.yaml";

/// A scheduler that ends when this is dropped.
#[derive(Debug)]
pub struct Scheduler {
    /// The name that pods have in `spec.schedulerName`.
    pub name: String,
    pub log: PathBuf,
    _process: Child,
}

impl Scheduler {
    /// Starts a scheduler of this name with a configuration: [`defaults`] or [`with_extender`].
    pub fn start(sandbox: &Sandbox, name: &str, mut configuration: Value) -> Result<Self> {
        configuration["profiles"][0]["schedulerName"] = name.into();
        // Thousands of pods are bound in seconds: the limit is not what is measured.
        configuration["clientConnection"] = json!({
            "kubeconfig": sandbox.kubeconfig_of(Component::KubeScheduler), "qps": 5000, "burst": 10000,
        });
        configuration["leaderElection"] = json!({"leaderElect": false});

        let folder = sandbox.logs_dir();
        let file = folder.join(format!("{name}.yaml"));
        fs::write(&file, serde_yaml_ng::to_string(&configuration)?).context("write")?;
        let log = folder.join(format!("{name}.log"));
        let stderr = File::create(&log).context("create the log")?;
        let process = Command::new(sandbox.programs().join("kube-scheduler"))
            .arg(format!("--config={}", file.display()))
            // Serves neither health nor metrics.
            .arg("--secure-port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .context("start kube-scheduler")?;
        Ok(Self {
            name: name.to_owned(),
            log,
            _process: process,
        })
    }
}

pub fn defaults() -> Value {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{}],
    })
}

/// The configuration in `deploy/` with this replica of the extender, and the file of the authority that
/// signed its certificate.
pub async fn with_extender(sandbox: &Sandbox, replica: &Replica) -> Result<Value> {
    let authority = extender_ca_file(sandbox).await?;
    let text = fs::read_to_string(repository().join(WITH_EXTENDER)).context(WITH_EXTENDER)?;
    let mut configuration: Value = serde_yaml_ng::from_str(&text).context(WITH_EXTENDER)?;
    configuration["extenders"][0]["urlPrefix"] = format!("https://{}:8443", replica.address).into();
    configuration["extenders"][0]["tlsConfig"]["caFile"] = json!(authority);
    Ok(configuration)
}
