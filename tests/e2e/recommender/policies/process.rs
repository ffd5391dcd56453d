//! A recommender as a process of the test, with the rights of one service account.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use e2e::process::{account, command};
use e2e::{free_address, shared};
use tokio::process::Child;

/// Starts one, which is killed when it is dropped.
pub(super) fn start(kubeconfig: &Path, arguments: &[&str], log: &Path) -> Result<Child> {
    command("recommender", kubeconfig, log)?
        .arg(format!("--address={}", free_address()?))
        .args(["--leader-elect=false", "--recommender-interval=1s"])
        .args(arguments)
        .spawn()
        .context("start a recommender")
}

/// The credentials of a service account, as a file in `folder`.
pub(super) async fn kubeconfig(namespace: &str, name: &str, folder: &Path) -> Result<PathBuf> {
    let config = account(shared().await?, namespace, name).await?;
    let path = folder.join("kubeconfig");
    std::fs::write(&path, serde_yaml_ng::to_string(&config)?)?;
    Ok(path)
}
