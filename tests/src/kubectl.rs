//! kubectl, as a user runs it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use sandbox::Sandbox;
use tokio::process::Command;

use crate::{prints, repository};

/// Applies a file of the repository, or what the kustomization in a folder of it makes, as a user
/// does. Returns kubectl's output.
pub async fn apply(sandbox: &Sandbox, path: &str) -> Result<String> {
    apply_with(sandbox, path, &[]).await
}

pub async fn apply_objects(sandbox: &Sandbox, objects: &str) -> Result<()> {
    let file = tempfile::NamedTempFile::with_suffix(".yaml")?;
    std::fs::write(file.path(), objects)?;
    let file = file.path().to_str().context("the path is text")?;
    apply(sandbox, file).await.map(drop)
}

pub async fn apply_with(sandbox: &Sandbox, path: &str, options: &[&str]) -> Result<String> {
    let whole = repository().join(path);
    let kind = if whole.is_dir() { "-k" } else { "-f" };
    let whole = whole.to_str().context("the path is text")?;
    let apply = ["apply", "--server-side", kind, whole];
    let apply = [&apply, options].concat();
    Kubectl::of(sandbox).run_with(&apply).await
}

/// Runs kubectl with all rights in the shared sandbox, and returns its output. `arguments` are
/// separated by whitespace.
pub async fn kubectl(arguments: &str) -> Result<String> {
    kubectl_in(crate::shared().await?, arguments).await
}

pub async fn kubectl_in(sandbox: &Sandbox, arguments: &str) -> Result<String> {
    Kubectl::of(sandbox).run(arguments).await
}

/// kubectl with the rights of a kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    /// A path, or a name on the path of programs.
    pub program: PathBuf,
    /// Cluster and rights.
    pub kubeconfig: PathBuf,
}

impl Kubectl {
    /// With all rights in a sandbox.
    pub fn of(sandbox: &Sandbox) -> Self {
        Self {
            program: sandbox.kubectl(),
            kubeconfig: sandbox.kubeconfig(),
        }
    }

    /// Runs a command, whose words are separated by whitespace, and returns its output.
    pub async fn run(&self, arguments: &str) -> Result<String> {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        self.run_with(&arguments).await
    }

    async fn run_with(&self, arguments: &[&str]) -> Result<String> {
        let cache = self.kubeconfig.with_file_name("kubectl-cache");
        let mut kubectl = Command::new(&self.program);
        kubectl
            .args(arguments)
            .env("KUBECACHEDIR", cache)
            .env("KUBECONFIG", &self.kubeconfig);
        prints(&mut kubectl).await
    }
}
