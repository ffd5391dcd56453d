//! The namespaces of a real node, and the processes that hold and clean them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::cgroups::{Hierarchies, start_cleaner};
use super::init;
use crate::exec_wrapper;
use crate::ports::Ports;

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

/// The chosen ports of a sandbox, and the listeners of those that clients of the machine use.
/// A socket stays in the namespace that it was made in, so listeners that are made before the
/// supervisor moves accept clients of the machine, and later connections reach the node.
pub(crate) struct HostPorts {
    /// The ports, all free in the namespace of the node.
    pub(crate) ports: Ports,
    listeners: Vec<TcpListener>,
}

impl HostPorts {
    /// Chooses ports and listens to those of kube-apiserver and Prometheus.
    pub(super) fn listen() -> Result<Self> {
        let (ports, held) = Ports::hold()?;
        let forwarded = [ports.api_server, ports.prometheus];
        let is_forwarded = |listener: &TcpListener| {
            listener
                .local_addr()
                .is_ok_and(|address| forwarded.contains(&address.port()))
        };
        let listeners = held.into_iter().filter(is_forwarded).collect();
        Ok(Self { ports, listeners })
    }

    /// Forwards connections to the same ports of the node's namespace, until dropped.
    pub(crate) async fn forward(&self) -> Result<()> {
        let mut tasks = JoinSet::new();
        for listener in &self.listeners {
            let listener = listener.try_clone().context("share a listener")?;
            listener
                .set_nonblocking(true)
                .context("set up a listener")?;
            let port = listener.local_addr().context("read a port")?.port();
            let listener = tokio::net::TcpListener::from_std(listener).context("use a listener")?;
            tasks.spawn(forward_port(listener, port));
        }
        match tasks.join_next().await {
            Some(ended) => ended.context("join")?,
            None => Ok(()),
        }
    }
}

async fn forward_port(listener: tokio::net::TcpListener, port: u16) -> Result<()> {
    let mut tunnels = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else {
                    // Probably out of file descriptors: other connections may end.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                };
                tunnels.spawn(tunnel(client, port));
            }
            Some(_) = tunnels.join_next() => {}
        }
    }
}

/// Carries one connection until either side closes it.
async fn tunnel(mut client: TcpStream, port: u16) {
    let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else {
        return;
    };
    // Nagle's algorithm would delay the small packets of a request.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let _closed = copy_bidirectional(&mut client, &mut server).await;
}
