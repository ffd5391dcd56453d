//! Removes the cgroups of a real node after its end, in whatever way it ended. A process of its own
//! outside of the node's namespaces, which waits for the end of the supervisor.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::cgroups::Hierarchies;

/// The hidden subcommand.
pub(crate) const SUBCOMMAND: &str = "remove-cgroups";

/// Starts the process. It goes on after the caller, until the pipe to it is closed.
pub(super) fn start(sandbox: &Path, name: &str) -> Result<Child> {
    Command::new(sandbox)
        .args([SUBCOMMAND, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("start the process that removes cgroups")
}

/// Waits until standard input is closed, then removes the cgroups of this sandbox.
pub(crate) fn run(name: &str) -> Result<()> {
    // Ctrl-C is for the sandbox, whose end closes the pipe.
    let _ = rustix::process::setsid();
    io::stdin()
        .read_to_end(&mut Vec::new())
        .context("wait for the end of the supervisor")?;
    Hierarchies::mounted()?.remove(name)
}
