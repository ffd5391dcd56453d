//! prometheus-adapter beside the suite, of a pinned version.

use std::fs;

use anyhow::{Context as _, Result};
use sandbox::Sandbox;
use tempfile::TempDir;

use crate::control_plane::{another_hosting, built};
use crate::neighbours::PROMETHEUS_ADAPTER;
use crate::{apply_objects, repository};

/// Its objects, in which `PROMETHEUS_URL` and `PROMETHEUS_CA` stand for those of the sandbox.
const MANIFEST: &str = "tests/e2e/prometheus_adapter/deployment.yaml";

pub struct WithPrometheusAdapter {
    pub sandbox: Sandbox,
    _programs: TempDir,
}

impl WithPrometheusAdapter {
    /// A sandbox of its own with Prometheus, in which prometheus-adapter runs.
    pub async fn start(purpose: &str) -> Result<Self> {
        let program = built(&PROMETHEUS_ADAPTER)
            .await?
            .join("bin/prometheus-adapter");
        let (sandbox, programs) =
            another_hosting(purpose, &[program], |options| options.prometheus = true).await?;
        let manifest = fs::read_to_string(repository().join(MANIFEST)).context(MANIFEST)?;
        let url = sandbox.prometheus_url().context("there is a Prometheus")?;
        let authority = sandbox.authority();
        let authority = authority.to_str().context("the path is text")?;
        let manifest = manifest.replace("PROMETHEUS_URL", &url);
        apply_objects(&sandbox, &manifest.replace("PROMETHEUS_CA", authority)).await?;
        Ok(Self {
            sandbox,
            _programs: programs,
        })
    }
}
