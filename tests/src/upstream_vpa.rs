//! Upstream's VPA beside the suite: its own programs and manifests, of a pinned version.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sandbox::{Options, Sandbox};
use tempfile::TempDir;

use crate::control_plane::{options, program, start};
use crate::kubectl_in;

/// A sandbox that can run upstream's programs.
pub struct WithUpstreamVpa {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// Upstream's manifests.
    manifests: PathBuf,
    /// Links to all programs, and copies of manifests.
    folder: TempDir,
}

impl WithUpstreamVpa {
    /// A sandbox of its own with Prometheus, in which nothing of upstream runs yet.
    pub async fn start(purpose: &str) -> Result<Self> {
        let found = folder_of_upstream().await?;
        let folder = tempfile::tempdir()?;
        let programs = folder.path().join("programs");
        fs::create_dir(&programs)?;
        for name in [
            "recommender",
            "updater",
            "webhook",
            "adapter",
            "plimsoll",
            "sandbox",
        ] {
            symlink(program(name)?, programs.join(name))?;
        }
        for name in ["vpa-recommender", "vpa-updater"] {
            symlink(found.join("bin").join(name), programs.join(name))?;
        }
        let options = Options {
            hosted_programs: programs,
            prometheus: true,
            ..options(Some(purpose))?
        };
        Ok(Self {
            sandbox: start(options).await?,
            manifests: found.join("files"),
            folder,
        })
    }

    /// Applies upstream's manifests with this `kustomization.yaml`.
    pub async fn apply(&self, kustomization: &Path) -> Result<()> {
        let folder = self.folder.path().join("manifests");
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(&self.manifests)? {
            let entry = entry?;
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
        fs::copy(kustomization, folder.join("kustomization.yaml")).context("the kustomization")?;
        let apply = format!("apply -k {}", folder.display());
        kubectl_in(&self.sandbox, &apply).await.map(drop)
    }
}

/// Builds upstream's programs if they are not in the cache.
pub(crate) async fn folder_of_upstream() -> Result<PathBuf> {
    let sandbox = program("sandbox")?;
    tokio::task::spawn_blocking(move || sandbox::upstream_vpa(&sandbox)).await?
}
