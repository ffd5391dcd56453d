//! kubectl, as a user runs it.

use anyhow::{Context, Result, ensure};
use sandbox::Sandbox;
use tokio::process::Command;

use crate::repository;

/// Applies a file of the repository, or what the kustomization in a folder of it makes, as a user
/// does. Returns kubectl's output.
pub async fn apply(sandbox: &Sandbox, path: &str) -> Result<String> {
    apply_with(sandbox, path, &[]).await
}

/// The same with more options.
pub async fn apply_with(sandbox: &Sandbox, path: &str, options: &[&str]) -> Result<String> {
    let whole = repository().join(path);
    let kind = if whole.is_dir() { "-k" } else { "-f" };
    let whole = whole.to_str().context("the path is text")?;
    let apply = ["apply", "--server-side", kind, whole];
    run(sandbox, &[&apply, options].concat()).await
}

/// Runs kubectl with all rights in the shared sandbox, and returns its output. `arguments` are
/// separated by whitespace.
pub async fn kubectl(arguments: &str) -> Result<String> {
    kubectl_in(crate::shared().await?, arguments).await
}

/// The same in any sandbox.
pub async fn kubectl_in(sandbox: &Sandbox, arguments: &str) -> Result<String> {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    run(sandbox, &arguments).await
}

async fn run(sandbox: &Sandbox, arguments: &[&str]) -> Result<String> {
    let kubeconfig = sandbox.kubeconfig();
    let output = Command::new(sandbox.kubectl())
        .args(arguments)
        .env("KUBECACHEDIR", kubeconfig.with_file_name("kubectl-cache"))
        .env("KUBECONFIG", kubeconfig)
        .output()
        .await
        .context("run kubectl")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let command = arguments.join(" ");
    ensure!(output.status.success(), "kubectl {command}: {errors}");
    String::from_utf8(output.stdout).context("kubectl printed something that is no text")
}
