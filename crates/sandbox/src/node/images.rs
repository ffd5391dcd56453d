//! Images in the container runtime of a real node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use tokio::time::sleep;

use super::CONTAINERD_SOCKET;
use super::image_archive::{self, Image};
use crate::exec_wrapper;
use crate::go_module::hex;

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

const SOURCE: &str = include_str!("../../node/pause.c");
/// The name of the program, and so of the entrypoint of its image.
const NAME: &str = "pause";

/// Returns the path of the program of pod sandboxes below `folder`, where it is built once.
pub(crate) fn pause_program(folder: &Path) -> Result<PathBuf> {
    let folder = folder.join(format!("pause-{}", hex(&Sha256::digest(SOURCE))));
    let program = folder.join(NAME);
    if program.exists() {
        return Ok(program);
    }
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let aside = tempfile::tempdir_in(&folder).context("create a folder to build in")?;
    let built = aside.path().join(NAME);
    let source = aside.path().join("pause.c");
    fs::write(&source, SOURCE).context("write pause.c")?;
    // Some distributions have no static C library: the image then has the shared one.
    if compile(&source, &built, &["-static"]).is_err() {
        compile(&source, &built, &[])?;
    }
    fs::rename(&built, &program)
        .with_context(|| format!("move the program to {}", program.display()))?;
    Ok(program)
}

fn compile(source: &Path, program: &Path, flags: &[&str]) -> Result<()> {
    let mut command = process::Command::new("cc");
    command.args(["-Os", "-s"]).args(flags).arg("-o");
    let output = command
        .arg(program)
        .arg(source)
        .output()
        .context("run `cc`: install a C compiler, such as gcc")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("`cc` failed: {}", error.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn the_program_is_built_once_and_ends_on_sigterm() {
        let folder = tempfile::tempdir().unwrap();
        let program = pause_program(folder.path()).unwrap();
        let built = fs::metadata(&program).unwrap().modified().unwrap();
        assert_eq!(pause_program(folder.path()).unwrap(), program);
        assert_eq!(fs::metadata(&program).unwrap().modified().unwrap(), built);
        let mut command = Command::new(&program);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let is_waiting = waits_for_signals(child.id());
        // No child to reap: it goes on.
        kill_process(pid, Signal::CHILD).unwrap();
        let signal = if is_waiting {
            Signal::TERM
        } else {
            Signal::KILL
        };
        kill_process(pid, signal).unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(0), None));
    }

    /// Whether the process sleeps within a bounded time: it does so for signals only.
    fn waits_for_signals(pid: u32) -> bool {
        let is_sleeping = || {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            status.contains("State:\tS")
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            if is_sleeping() {
                return true;
            }
            thread::yield_now();
        }
        false
    }
}
