//! The namespaces of a real node, and the processes that hold and clean them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::cgroups::{Hierarchies, start_cleaner};
use super::host_ports::HostPorts;
use super::init;
use crate::exec_wrapper;

/// A network namespace with this process in it, and a PID and a mount namespace for the node's
/// programs.
pub(crate) struct Namespaces {
    /// Ports of the machine that lead into the network namespace.
    pub(crate) host_ports: HostPorts,
    init: Child,
    cleaner: Child,
}

impl Namespaces {
    /// Moves this process, which must have one thread, into a new network namespace, and creates the
    /// others. `state` is the folder of the sandbox.
    pub(crate) fn enter(sandbox: &Path, name: &str, state: &Path) -> Result<Self> {
        let cgroups = Hierarchies::mounted()?;
        // Of a sandbox of this name whose processes were killed.
        cgroups.remove(name)?;
        cgroups.create(name)?;
        let cleaner = start_cleaner(sandbox, name)?;
        let host_ports = HostPorts::listen()?;
        unshare(UnshareFlags::NEWNET | UnshareFlags::NEWPID).context("create namespaces")?;
        let mut init = {
            let _back = Children(());
            // The first child is the first process of the PID namespace. Its end is the end of all.
            exec_wrapper::command(sandbox, None, sandbox)
                .arg(init::SUBCOMMAND)
                .arg(state)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .context("start the first process of the namespaces")?
        };
        let output = init.stdout.take().context("no pipe from the process")?;
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .context("wait for the namespaces")?;
        ensure!(
            line.trim() == init::READY,
            "the namespaces cannot be set up; the supervisor's log says why"
        );
        Ok(Self {
            host_ports,
            init,
            cleaner,
        })
    }

    /// Process whose mount namespace the node's programs have.
    pub(crate) fn init(&self) -> u32 {
        self.init.id()
    }

    /// Ends everything in the namespaces and removes the cgroups; blocks until both are done.
    pub(crate) fn end(mut self) -> Result<()> {
        self.init.kill().context("end the namespaces")?;
        self.init
            .wait()
            .context("wait for the end of the namespaces")?;
        drop(self.cleaner.stdin.take());
        let status = self
            .cleaner
            .wait()
            .context("wait for the removal of cgroups")?;
        ensure!(
            status.success(),
            "cgroups are left; the supervisor's log says which"
        );
        Ok(())
    }
}

/// The PID namespace of the children that this thread starts, until the value is dropped. Meanwhile
/// the thread cannot start other threads.
pub(crate) struct Children(());

impl Children {
    /// Children get the PID namespace of a process.
    pub(crate) fn start_in(process: u32) -> Result<Self> {
        enter(&format!("/proc/{process}/ns/pid"))?;
        Ok(Self(()))
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        if let Err(error) = enter("/proc/self/ns/pid") {
            tracing::error!(
                error = format!("{error:#}"),
                "cannot leave the PID namespace"
            );
        }
    }
}

/// Moves the children of this thread to a PID namespace.
fn enter(path: &str) -> Result<()> {
    let namespace = File::open(path).with_context(|| format!("open {path}"))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::ProcessID))
        .with_context(|| format!("start children in {path}"))
}

/// Moves this thread, and for a PID namespace its children, into new namespaces.
pub(super) fn unshare(kinds: UnshareFlags) -> rustix::io::Result<()> {
    // Deprecated for one flag, which would give threads different open files.
    assert!(!kinds.contains(UnshareFlags::FILES));
    #[expect(
        deprecated,
        reason = "the other function is unsafe, which this workspace forbids"
    )]
    rustix::thread::unshare(kinds)
}
