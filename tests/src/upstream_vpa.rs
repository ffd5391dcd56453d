//! Upstream's VPA beside the suite: its own programs and manifests, of a pinned version.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sandbox::{Options, Sandbox, UPSTREAM_VPA};
use tempfile::TempDir;

use crate::control_plane::{another_hosting, built};
use crate::kubectl_in;

/// A sandbox that can run upstream's programs.
pub struct WithUpstreamVpa {
    pub sandbox: Sandbox,
    manifests: PathBuf,
    _programs: TempDir,
}

impl WithUpstreamVpa {
    /// A sandbox of its own with Prometheus, in which nothing of upstream runs yet.
    pub async fn start(purpose: &str) -> Result<Self> {
        let found = built(&UPSTREAM_VPA).await?;
        let own = ["vpa-recommender", "vpa-updater"].map(|name| found.join("bin").join(name));
        let with_prometheus = |options: &mut Options| options.prometheus = true;
        let (sandbox, programs) = another_hosting(purpose, &own, with_prometheus).await?;
        Ok(Self {
            sandbox,
            manifests: found.join("files"),
            _programs: programs,
        })
    }

    /// Applies upstream's manifests with this `kustomization.yaml`.
    pub async fn apply(&self, kustomization: &Path) -> Result<()> {
        let manifests = tempfile::tempdir()?;
        let folder = manifests.path();
        for entry in fs::read_dir(&self.manifests)? {
            let entry = entry?;
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
        fs::copy(kustomization, folder.join("kustomization.yaml")).context("the kustomization")?;
        let apply = format!("apply -k {}", folder.display());
        kubectl_in(&self.sandbox, &apply).await.map(drop)
    }
}
