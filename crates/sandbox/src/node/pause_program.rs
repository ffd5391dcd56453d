//! The program of pod sandboxes, built from C source with this machine's compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::go_module::hex;

const SOURCE: &str = include_str!("../../node/pause.c");
/// The name of the program, and so of the entrypoint of its image.
const NAME: &str = "pause";

/// Returns the path of the program below `folder`, where it is built once.
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
    let mut command = Command::new("cc");
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
    use std::process::Stdio;
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
