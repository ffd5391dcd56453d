//! A cluster that [kind](https://kind.sigs.k8s.io) has made: its nodes are containers.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use e2e::prints;
use tokio::fs;
use tokio::process::Command;

pub(crate) async fn kubeconfig(folder: &Path) -> Result<PathBuf> {
    let text = kind(&["get", "kubeconfig"]).await?;
    let path = folder.join("kubeconfig");
    fs::write(&path, text)
        .await
        .with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

pub(crate) async fn load(archive: &Path) -> Result<()> {
    let archive = archive.to_str().context("the path is text")?;
    kind(&["load", "image-archive", archive]).await.map(drop)
}

/// Runs kind, which takes the name of the cluster from `KIND_CLUSTER_NAME`.
async fn kind(arguments: &[&str]) -> Result<String> {
    prints(Command::new("kind").args(arguments)).await
}
