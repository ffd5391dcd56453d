//! The supervisor's configuration and the events that it sends while it starts a sandbox, as JSON
//! lines over its standard streams, and the pipe to the process that started it.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::kubernetes_version::{ControlPlaneFolders, KubernetesVersion};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// 1 to 32 of a-z, 0-9 and inner dashes; there is one sandbox per name.
    pub name: String,
    pub nodes: u16,
    /// Whether to run a node with a real kubelet and real containers. Needs root, and what
    /// [`missing_for_real_node`](crate::missing_for_real_node) names. Pods go there unless they
    /// tolerate the taint `kwok.x-k8s.io/node=fake:NoSchedule` of simulated nodes.
    pub real_node: bool,
    pub prometheus: bool,
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StartEvent {
    Step(String),
    Ready,
    /// The start failed; nothing runs any more.
    Failed(String),
}

/// The pipe between a supervisor and the process that started it. When that process ends, for any
/// reason, the pipe closes and the sandbox goes down, unless the line `detach` came before.
pub(crate) struct ParentPipe(oneshot::Receiver<()>);

impl ParentPipe {
    /// Reads the rest of the input, in its own thread, because a read cannot be aborted.
    pub(crate) fn watch(input: impl BufRead + Send + 'static) -> Self {
        let (cut, is_cut) = oneshot::channel();
        thread::spawn(move || {
            if input
                .lines()
                .map_while(Result::ok)
                .any(|line| line == DETACH)
            {
                // Never dropped: the receiver would take that for the end of the owner.
                std::mem::forget(cut);
            } else {
                let _ = cut.send(());
            }
        });
        Self(is_cut)
    }

    pub(crate) async fn closed(&mut self) {
        let _ = (&mut self.0).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_end_of_the_owner_closes_the_pipe() {
        let mut pipe = ParentPipe::watch(std::io::Cursor::new("something else\n"));
        assert!(timeout(Duration::from_mins(1), pipe.closed()).await.is_ok());
    }

    #[tokio::test]
    async fn a_detached_sandbox_outlives_its_owner() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut parent_pipe = ParentPipe::watch(std::io::BufReader::new(reader));
        std::io::Write::write_all(&mut writer, b"detach\n").unwrap();
        drop(writer);
        tokio::task::yield_now().await;
        assert_eq!(parent_pipe.closed().now_or_never(), None);
    }
}
