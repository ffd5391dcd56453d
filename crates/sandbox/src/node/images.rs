//! Images in the container runtime of a real node.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::process::Command;
use tokio::time::sleep;

use super::CONTAINERD_SOCKET;
use super::image::Image;
use super::image_archive;
use super::pause_program::pause_program;
use crate::exec_wrapper;

/// Limit for containerd to accept connections.
const READY_TIMEOUT: Duration = Duration::from_mins(1);
/// Pause between two attempts.
const POLL: Duration = Duration::from_millis(100);

/// Imports all images of an OCI archive. Waits until the container runtime accepts connections.
/// `sandbox` is the program of this crate, `programs` the folder of containerd's programs, and `init` the
/// first process of the node's namespaces.
pub(crate) async fn import(
    sandbox: &Path,
    programs: &Path,
    init: u32,
    archive: &Path,
) -> Result<()> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let ctr = exec_wrapper::command(sandbox, Some(init), programs.join("ctr"));
        let output = Command::from(ctr)
            .args(["--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"])
            .args(["images", "import"])
            .arg(archive)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .context("run ctr")?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !errors.contains(CONTAINERD_SOCKET) || Instant::now() > deadline {
            bail!("ctr cannot import {}: {errors}", archive.display());
        }
        sleep(POLL).await;
    }
}

/// The archive with the image of pod sandboxes, in a cache folder.
pub(crate) fn pause_archive(cache: &Path) -> Result<PathBuf> {
    let program = pause_program(cache)?;
    let image = Image::of_program(super::PAUSE_IMAGE, &program)?;
    image_archive::cached(&[image], cache)
}
