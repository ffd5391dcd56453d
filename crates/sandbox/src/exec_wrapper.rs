//! Ties a program to the process that starts it: the child asks the kernel to be killed when its
//! parent dies, then becomes the program. The kernel watches the parent's *thread*, so start
//! children from a thread that lives as long as the parent. A program of a real node also moves to
//! the node's mount namespace.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub(crate) const SUBCOMMAND: &str = "exec";

/// A command that runs `program` and is killed together with the calling process. `sandbox` is the
/// path of this program, `mounts_of` a process whose mount namespace the program gets.
pub(crate) fn command(
    sandbox: &Path,
    mounts_of: Option<u32>,
    program: impl AsRef<OsStr>,
) -> Command {
    let mut command = Command::new(sandbox);
    command
        .arg(SUBCOMMAND)
        .arg(std::process::id().to_string())
        .args(mounts_of.map(|process| process.to_string()))
        .arg("--")
        .arg(program);
    command
}

/// Becomes `program`; returns only when that fails.
pub(crate) fn become_program(
    parent: i32,
    mounts_of: Option<u32>,
    program: &OsStr,
    arguments: &[OsString],
) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("tie to the parent process")?;
    // The parent may have died before the line above took effect. One outside of this process's PID
    // namespace has no number here.
    if rustix::process::getppid()
        .map(Pid::as_raw_nonzero)
        .is_some_and(|found| i32::from(found) != parent)
    {
        bail!("the parent process {parent} is gone");
    }
    if let Some(process) = mounts_of {
        enter_mounts(process)?;
    }
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("start {}", program.display()))
}

/// Moves to the mount namespace of a process. The working folder stays the same path.
fn enter_mounts(process: u32) -> Result<()> {
    let folder = env::current_dir().context("read the working folder")?;
    let path = format!("/proc/{process}/ns/mnt");
    let namespace = File::open(&path).with_context(|| format!("open {path}"))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
        .context("move to the mount namespace of the node")?;
    env::set_current_dir(&folder).with_context(|| format!("enter {}", folder.display()))
}
