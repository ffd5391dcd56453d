//! The program helm, and the chart of the repository.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kube::Client;
use tokio::process::Command;

use crate::control_plane::built;
use crate::deployment::{SUITE, SYSTEM, all_ready};
use crate::neighbours::HELM;
use crate::{prints, repository};

pub const RELEASE: &str = "plimsoll";

/// The path of the program, which is built from its sources first if necessary.
pub async fn path() -> Result<PathBuf> {
    Ok(built(&HELM).await?.join("bin/helm"))
}

#[derive(Debug)]
pub struct Helm {
    program: PathBuf,
    kubeconfig: Option<PathBuf>,
    /// A folder or an archive.
    chart: PathBuf,
    /// Helm's own files, and the archive.
    home: tempfile::TempDir,
}

impl Helm {
    /// Without a cluster.
    pub async fn find() -> Result<Self> {
        Ok(Self {
            program: path().await?,
            kubeconfig: None,
            chart: repository().join("deploy/chart"),
            home: tempfile::tempdir()?,
        })
    }

    /// The same with the archive of the chart that `helm package` makes.
    pub async fn packaged(self) -> Result<Self> {
        let folder = self.home.path().to_str().context("the path is text")?;
        self.run(&["package", "--destination", folder]).await?;
        let archive = format!("{RELEASE}-{}.tgz", env!("CARGO_PKG_VERSION"));
        let chart = self.home.path().join(archive);
        Ok(Self { chart, ..self })
    }

    /// The same with a cluster.
    #[must_use]
    pub fn with(self, kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: Some(kubeconfig.to_owned()),
            ..self
        }
    }

    /// Runs a command with the chart as the last argument, and returns its output.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let chart = self.chart.to_str().context("the chart's path is text")?;
        self.run_without_chart(&[arguments, &[chart]].concat())
            .await
    }

    pub async fn run_without_chart(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("HELM_CACHE_HOME", self.home.path())
            .env("HELM_CONFIG_HOME", self.home.path())
            .env("HELM_DATA_HOME", self.home.path());
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        prints(&mut command).await
    }

    /// The objects of the chart with these values, without a cluster.
    pub async fn template<S: AsRef<str>>(&self, values: &[S]) -> Result<String> {
        self.template_in(SYSTEM, values).await
    }

    pub async fn template_in<S: AsRef<str>>(
        &self,
        namespace: &str,
        values: &[S],
    ) -> Result<String> {
        let template = ["template", RELEASE, "--namespace", namespace];
        self.run(&with_values(&template, values)).await
    }

    /// Installs or upgrades the release with these values, and waits until its programs are ready.
    pub async fn upgrade(&self, client: &Client, values: &[&str]) -> Result<String> {
        let upgrade = ["upgrade", RELEASE, "--install", "--namespace", SYSTEM];
        let upgrade = [&upgrade[..], &["--create-namespace"]].concat();
        let printed = self.run(&with_values(&upgrade, values)).await?;
        all_ready(client, SUITE).await?;
        Ok(printed)
    }

    pub async fn uninstall(&self) -> Result<()> {
        let uninstall = ["uninstall", RELEASE, "--namespace", SYSTEM, "--wait"];
        self.run_without_chart(&uninstall).await.map(drop)
    }
}

/// Arguments, and a flag for each value: lists in brackets are JSON.
fn with_values<'a, S: AsRef<str>>(arguments: &[&'a str], values: &'a [S]) -> Vec<&'a str> {
    let flags = values.iter().map(AsRef::as_ref).flat_map(|value| {
        let is_json = value.contains("=[");
        [if is_json { "--set-json" } else { "--set" }, value]
    });
    arguments.iter().copied().chain(flags).collect()
}
