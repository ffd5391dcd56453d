//! Ties a program to the process that starts it: the child asks the kernel to be killed when its
//! parent dies, then becomes the program. The kernel watches the parent's *thread*, so start
//! children from a thread that lives as long as the parent.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

/// The hidden subcommand.
pub(crate) const SUBCOMMAND: &str = "exec";

/// A command that runs `program` and is killed together with the calling process. `sandbox` is the
/// path of this program.
pub(crate) fn command(sandbox: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(sandbox);
    command
        .arg(SUBCOMMAND)
        .arg(std::process::id().to_string())
        .arg("--")
        .arg(program);
    command
}

/// Becomes `program`; returns only when that fails.
pub(crate) fn become_program(parent: i32, program: &OsStr, arguments: &[OsString]) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("tie to the parent process")?;
    // The parent may have died before the line above took effect.
    if rustix::process::getppid()
        .map(Pid::as_raw_nonzero)
        .map(i32::from)
        != Some(parent)
    {
        bail!("the parent process {parent} is gone");
    }
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("start {}", program.display()))
}
