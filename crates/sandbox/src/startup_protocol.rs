//! The supervisor's configuration and the events that it sends while it starts a sandbox: JSON
//! lines over its standard streams.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kubernetes_version::{ControlPlaneFolders, KubernetesVersion};

/// Options of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// 1 to 32 of a-z, 0-9 and inner dashes; there is one sandbox per name.
    pub name: String,
    /// Number of simulated nodes.
    pub nodes: u16,
    /// Whether to run a node with a real kubelet and real containers. Needs root, and what
    /// [`missing_for_real_node`](crate::missing_for_real_node) names. Pods go there unless they
    /// tolerate the taint `kwok.x-k8s.io/node=fake:NoSchedule` of simulated nodes.
    pub real_node: bool,
    /// Whether to run a Prometheus.
    pub prometheus: bool,
    /// Version of etcd and of the programs of Kubernetes.
    pub kubernetes_version: KubernetesVersion,
    /// The `sandbox` program, which also runs as supervisor.
    pub program: PathBuf,
    /// Folder of the programs that hosted pods run.
    pub hosted_programs: PathBuf,
    /// First restart delay of a hosted container that ends again and again; a kubelet's is ten
    /// seconds.
    pub restart_back_off: Duration,
    /// Folder of the audit log, which stays when the sandbox is down. Without it the audit log is
    /// among the other logs.
    pub audit_logs: Option<PathBuf>,
}

impl Options {
    /// Three nodes, no Prometheus, the newest Kubernetes, hosted programs in the folder of `program`.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        let hosted_programs = program.parent().map(Path::to_owned).unwrap_or_default();
        let restart_back_off = Duration::from_secs(10);
        Self {
            name: name.into(),
            nodes: 3,
            real_node: false,
            prometheus: false,
            kubernetes_version: KubernetesVersion::default(),
            program,
            hosted_programs,
            restart_back_off,
            audit_logs: None,
        }
    }
}

/// Configuration of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxConfig {
    pub(crate) options: Options,
    /// Folders of the real node's programs, if it is requested.
    pub(crate) real_node: Option<NodeFolders>,
    /// Folders of the control plane's programs and files.
    pub(crate) control_plane: ControlPlaneFolders,
    /// Folder of Prometheus, if requested.
    pub(crate) prometheus: Option<PathBuf>,
}

/// Folders of the programs of a real node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeFolders {
    /// Folder of kubelet and kube-proxy.
    pub(crate) node: PathBuf,
    /// Folder of containerd and of the plugins of the pod network.
    pub(crate) container_runtime: PathBuf,
    /// Archive of the image of pod sandboxes.
    pub(crate) pause_image: PathBuf,
}

/// The line after the configuration that lets a supervisor outlive its owner.
pub(crate) const DETACH: &str = "detach";

/// An event of the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StartEvent {
    Step(String),
    /// Everything is up.
    Ready,
    /// The start failed; nothing runs any more.
    Failed(String),
}
