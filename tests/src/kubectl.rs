//! kubectl, as a user runs it.

use anyhow::{Context, Result, ensure};
use sandbox::Sandbox;
use tokio::process::Command;

use crate::repository;

/// Applies a file of the repository, or what the kustomization in a folder of it makes, as a user
/// does.
pub async fn apply(sandbox: &Sandbox, path: &str) -> Result<()> {
    let whole = repository().join(path);
    let kind = if whole.is_dir() { "-k" } else { "-f" };
    let whole = whole.to_str().context("the repository's path is text")?;
    kubectl_in(sandbox, &["apply", "--server-side", kind, whole])
        .await
        .map(drop)
}

/// Runs kubectl with all rights in the shared sandbox, and returns its output.
pub async fn kubectl(arguments: &[&str]) -> Result<String> {
    kubectl_in(crate::shared().await?, arguments).await
}

/// The same in any sandbox.
pub async fn kubectl_in(sandbox: &Sandbox, arguments: &[&str]) -> Result<String> {
    let kubeconfig = sandbox.kubeconfig();
    let output = Command::new(sandbox.kubectl())
        .args(arguments)
        .env("KUBECACHEDIR", kubeconfig.with_file_name("kubectl-cache"))
        .env("KUBECONFIG", kubeconfig)
        .output()
        .await
        .context("run kubectl")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "kubectl {}: {errors}",
        arguments.join(" ")
    );
    String::from_utf8(output.stdout).context("kubectl printed something that is no text")
}
