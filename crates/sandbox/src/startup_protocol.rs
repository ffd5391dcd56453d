//! The supervisor's configuration and the events that it sends while it starts a sandbox: JSON
//! lines over its standard streams.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kubernetes_version::ControlPlaneFolders;

/// Configuration of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxConfig {
    /// Name; only one sandbox of a name can run.
    pub(crate) name: String,
    /// Number of simulated nodes.
    pub(crate) nodes: u16,
    /// Folders of the real node's programs, if it is requested.
    pub(crate) real_node: Option<NodeFolders>,
    /// The `sandbox` program.
    pub(crate) sandbox: PathBuf,
    /// Folders of the control plane's programs and files.
    pub(crate) control_plane: ControlPlaneFolders,
    /// Folder of Prometheus, if requested.
    pub(crate) prometheus: Option<PathBuf>,
    /// Folder of the programs that hosted pods run.
    pub(crate) hosted_programs: PathBuf,
    /// First restart delay of a hosted container that ends again and again.
    pub(crate) restart_back_off: Duration,
    /// Folder of the audit log, if it is not that of the other logs.
    pub(crate) audit_logs: Option<PathBuf>,
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
