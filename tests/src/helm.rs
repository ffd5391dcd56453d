//! The program helm, and the chart of the repository.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tokio::process::Command;

use crate::deployment::SYSTEM;
use crate::{prints, program, repository};

pub const RELEASE: &str = "plimsoll";

/// The path of the program, which is built from its sources first if necessary.
pub async fn path() -> Result<PathBuf> {
    let sandbox = program("sandbox")?;
    tokio::task::spawn_blocking(move || sandbox::helm(&sandbox)).await?
}

/// The program.
#[derive(Debug)]
pub struct Helm {
    program: PathBuf,
    kubeconfig: Option<PathBuf>,
    /// Helm's own files.
    home: tempfile::TempDir,
}

impl Helm {
    /// Without a cluster.
    pub async fn find() -> Result<Self> {
        Ok(Self {
            program: path().await?,
            kubeconfig: None,
            home: tempfile::tempdir()?,
        })
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
        let chart = repository().join("deploy/chart");
        let chart = chart.to_str().context("the repository's path is text")?;
        self.run_without_chart(&[arguments, &[chart]].concat())
            .await
    }

    /// Runs a command, and returns its output.
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
    pub async fn template(&self, values: &[String]) -> Result<String> {
        self.template_in(SYSTEM, values).await
    }

    pub async fn template_in(&self, namespace: &str, values: &[String]) -> Result<String> {
        let mut arguments = vec!["template", RELEASE, "--namespace", namespace];
        for value in values {
            arguments.extend([flag_of(value), value]);
        }
        self.run(&arguments).await
    }
}

/// The flag of a value: lists in brackets are JSON.
pub fn flag_of(value: &str) -> &'static str {
    if value.contains("=[") {
        "--set-json"
    } else {
        "--set"
    }
}
