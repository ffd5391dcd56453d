//! Ports of the machine that lead into the network namespace of a real node. A socket stays in the
//! namespace that it was made in, so listeners that are made before the supervisor moves accept
//! clients of the machine, and connections that are made after it reach the node.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::ports::Ports;

/// The chosen ports of a sandbox, and the listeners of those that clients of the machine use.
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
