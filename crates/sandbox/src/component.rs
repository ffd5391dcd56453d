//! The processes of a sandbox, by the names that users know.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One process of the control plane.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    Etcd,
    KubeApiserver,
    /// Deployments, `ReplicaSet`s, Jobs, the HPA, garbage collection.
    KubeControllerManager,
    /// Binds pods to nodes.
    KubeScheduler,
    /// The fake kubelet of every simulated node.
    Kwok,
    /// The container runtime of a real node.
    Containerd,
    /// The kubelet of a real node.
    Kubelet,
    /// Routes the addresses of Services on a real node.
    KubeProxy,
    /// Serves metrics.k8s.io from what the kubelets report.
    MetricsServer,
    /// A Prometheus, if requested.
    Prometheus,
}

impl Component {
    /// Every component, in the order of their dependencies.
    pub const ALL: [Self; 10] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kwok,
        Self::Containerd,
        Self::Kubelet,
        Self::KubeProxy,
        Self::MetricsServer,
        Self::Prometheus,
    ];

    /// Whether it is a program of a real node, in the node's mount namespace.
    pub(crate) fn is_on_real_node(self) -> bool {
        matches!(self, Self::Containerd | Self::Kubelet | Self::KubeProxy)
    }

    /// Name in flags, log files and status, and file name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::MetricsServer => "metrics-server",
            Self::Prometheus => "prometheus",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_files_and_records_use_one_name() {
        for component in Component::ALL {
            let flag = component
                .to_possible_value()
                .expect("no component is hidden");
            assert_eq!(flag.get_name(), component.name());
            assert_eq!(serde_json::to_value(component).unwrap(), component.name());
        }
    }
}
