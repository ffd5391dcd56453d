//! A plan of `plimsoll migrate`, whose commands run one by one in a shell, as a user runs them.

use std::env::{join_paths, split_paths, var_os};
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use sandbox::Sandbox;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::{Namespace, condition, eventually, helm, plimsoll_json, prints, program, repository};

pub struct MigrationPlan {
    pub steps: Vec<Value>,
    kubeconfig: PathBuf,
    /// Folder of the commands, with their files and the chart.
    folder: TempDir,
    path: OsString,
    /// Words of the plan, and what a user writes in their place.
    words: Vec<(&'static str, String)>,
}

impl MigrationPlan {
    /// The plan for a product that runs in a sandbox. `words` are those that the plan leaves to the user.
    pub async fn of(
        sandbox: &Sandbox,
        product: &str,
        words: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let kubeconfig = sandbox.kubeconfig();
        let mut plan = plimsoll_json(&kubeconfig, &format!("migrate {product} --plan")).await?;
        let Value::Array(steps) = plan["steps"].take() else {
            bail!("no steps: {plan:#}");
        };
        let folder = tempfile::tempdir()?;
        symlink(repository().join("deploy"), folder.path().join("deploy"))?;
        let programs = [helm::path().await?, program("plimsoll")?, sandbox.kubectl()];
        let folders = programs.iter().filter_map(|it| it.parent());
        let folders = folders.map(Path::to_owned);
        let path = var_os("PATH").unwrap_or_default();
        let path = join_paths(folders.chain(split_paths(&path)))?;
        Ok(Self {
            steps,
            kubeconfig,
            folder,
            path,
            words,
        })
    }

    /// Runs the commands of a step.
    pub async fn run(&self, step: &Value) -> Result<()> {
        self.run_field(step, "commands").await
    }

    /// Runs the commands that revert a step.
    pub async fn revert(&self, step: &Value) -> Result<()> {
        self.run_field(step, "undo").await
    }

    async fn run_field(&self, step: &Value, field: &str) -> Result<()> {
        for command in step[field].as_array().context("no commands")? {
            let command = command.as_str().context("a command is text")?;
            let replace = |text: String, (word, by): &(&str, String)| text.replace(word, by);
            let command = self.words.iter().fold(command.to_owned(), replace);
            let folder = self.folder.path();
            let mut shell = Command::new("bash");
            shell
                .args(["-euc", &command])
                .current_dir(folder)
                .env("PATH", &self.path)
                .env("KUBECONFIG", &self.kubeconfig)
                .env("KUBECACHEDIR", folder)
                .env("HELM_CACHE_HOME", folder)
                .env("HELM_CONFIG_HOME", folder)
                .env("HELM_DATA_HOME", folder);
            let step = format!("{}, {field}: {command}", step["title"]);
            let printed = prints(&mut shell).await.with_context(|| step.clone())?;
            println!("{step}\n{printed}");
        }
        Ok(())
    }
}

/// Waits until an `APIService` names this Service, `NAMESPACE/NAME`, and is available.
pub async fn api_service_is_of(client: &Client, api: &str, service: &str) -> Result<()> {
    let cluster = Namespace::cluster(client.clone());
    eventually(&format!("{api} is of {service}"), async || {
        let found = cluster.get::<APIService>(api).await?;
        let text = |field: &str| found["spec"]["service"][field].as_str().unwrap_or_default();
        let named = format!("{}/{}", text("namespace"), text("name"));
        ensure!(named == service, "it is of {named}");
        let available = condition(&found["status"], "Available").context("no condition")?;
        ensure!(available["status"] == "True", "{available}");
        Ok(())
    })
    .await
}
