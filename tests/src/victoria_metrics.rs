//! `VictoriaMetrics`, of a pinned version, as one store of several clusters.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::control_plane::built;
use crate::free_address;
use crate::neighbours::VICTORIA_METRICS;

/// A store that is killed when it is dropped.
pub struct VictoriaMetrics {
    pub url: String,
    _process: Child,
    _data: TempDir,
}

impl VictoriaMetrics {
    /// Its log is in a folder.
    pub async fn start(logs: &Path) -> Result<Self> {
        let program = built(&VICTORIA_METRICS).await?.join("bin/victoria-metrics");
        let data = tempfile::tempdir()?;
        let address = free_address()?;
        let log = File::create(logs.join("victoria-metrics.log"))?;
        let process = Command::new(program)
            .arg(format!("-httpListenAddr={address}"))
            .arg(format!("-storageDataPath={}", data.path().display()))
            // What was written is read at once.
            .args(["-retentionPeriod=1y", "-search.latencyOffset=1ms"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("start VictoriaMetrics")?;
        Ok(Self {
            url: format!("http://{address}"),
            _process: process,
            _data: data,
        })
    }
}
