//! Free ports of the loopback address, chosen by the kernel. All are bound at the same time while
//! they are chosen, so that they differ. Another program may still take one before its component
//! listens; then the start is repeated with other ports.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    pub etcd: u16,
    /// etcd for its peers; it has none, but requires the port.
    pub etcd_peer: u16,
    /// kube-apiserver.
    pub api_server: u16,
    /// kube-controller-manager's health and metrics.
    pub controller_manager: u16,
    /// kube-scheduler's health and metrics.
    pub scheduler: u16,
    /// KWOK as every node's kubelet.
    pub kwok: u16,
    pub metrics_server: u16,
    /// Prometheus, when it runs.
    pub prometheus: u16,
}

impl Ports {
    /// Eight different free ports.
    pub fn choose() -> Result<Self> {
        Self::hold().map(|(ports, _)| ports)
    }

    /// Eight different free ports, and their listeners.
    pub(crate) fn hold() -> Result<(Self, Vec<TcpListener>)> {
        let mut held = Vec::new();
        let mut next = || -> Result<u16> {
            let listener =
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
            let port = listener
                .local_addr()
                .context("read the chosen port")?
                .port();
            held.push(listener);
            Ok(port)
        };
        let ports = Self {
            etcd: next()?,
            etcd_peer: next()?,
            api_server: next()?,
            controller_manager: next()?,
            scheduler: next()?,
            kwok: next()?,
            metrics_server: next()?,
            prometheus: next()?,
        };
        Ok((ports, held))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn chosen_ports_differ() {
        let ports = Ports::choose().unwrap();
        let numbers: BTreeSet<u64> = serde_json::to_value(&ports)
            .unwrap()
            .as_object()
            .unwrap()
            .values()
            .map(|port| port.as_u64().unwrap())
            .collect();
        assert_eq!(numbers.len(), 8);
    }
}
