//! Hosts the suite's own pods as local processes. A sandbox has no container engine: KWOK simulates
//! pods with other images, and a pod with an image of ours (`[registry/]plimsoll/<program>[:tag]`)
//! runs `<binaries>/<program>`, with the pod's arguments, environment, `ServiceAccount` token,
//! Secrets, `ConfigMap`s, probes and restarts. This module is a small kubelet, and the proxy
//! through which the API server reaches such pods.
//!
//! Differences from a container:
//!
//! * There is no file system of its own. Volumes live in the pod's folder; an argument or
//!   environment value that names a path below a mount path is rewritten. The `ServiceAccount`
//!   comes as a kubeconfig named by `KUBECONFIG`.
//! * There is no network of its own. Each pod has a loopback address, which `status.podIP` names
//!   only up to its first octet; programs must listen on it (`PLIMSOLL_LISTEN_IP`, or the
//!   `status.podIP` field).
//! * Requests, limits, security contexts and read-only mounts are reported but not enforced; readiness
//!   gates, `workingDir` and the grace period of a probe are ignored.
//! * Usage is that of the processes, unless the pod has the annotation `sandbox.plimsoll.dev/own-usage`:
//!   then its program writes the annotations of its usage itself.
//! * Other containers of such a pod are simulated: running and ready, without a process.

pub(crate) mod image;
pub(crate) mod kwok_resources;

mod address;
mod atomic_writer;
mod config_objects;
mod container;
mod container_state;
mod destination;
mod environment;
mod fields;
#[cfg(test)]
mod fixture;
mod logs;
mod mounts;
mod pod;
mod pod_context;
mod pod_table;
mod pods;
mod probe;
mod prober;
mod process;
mod process_spec;
mod proxy;
mod restart;
mod status;
mod stop;
mod tokens;
mod volume_writer;
mod volumes;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use kube::Client;
use tokio_util::sync::CancellationToken;

use self::address::{Block, Pool};
use self::config_objects::ObjectStore;
use self::pod_table::PodTable;
use self::proxy::Proxy;
use crate::layout::Layout;
use crate::startup_protocol::SandboxConfig;
use pod_context::Events;

/// State that all hosted pods share.
struct Hosting {
    client: Client,
    config: SandboxConfig,
    /// Folder for the pods' volumes and logs.
    folder: PathBuf,
    api_server_port: u16,
    objects: ObjectStore,
    registry: Arc<PodTable>,
    events: Events,
}

/// Hosts pods and serves the proxy until cancelled; then ends all processes and returns. `client` has
/// every right.
pub(crate) async fn run(
    client: Client,
    config: SandboxConfig,
    layout: &Layout,
    api_server_port: u16,
    cancel: CancellationToken,
) -> Result<()> {
    let folder = layout.pods();
    let block = Block::claim(&folder).context("claim a block of loopback addresses")?;
    atomic_writer::make_folder(&folder)
        .with_context(|| format!("create folder {}", folder.display()))?;
    let socket = layout.proxy_socket();
    let listener =
        proxy::listen(&socket).with_context(|| format!("listen on {}", socket.display()))?;
    let registry = Arc::new(PodTable::new(Pool::new(block.octet)));
    let (objects, feed_objects) = ObjectStore::watch(&client);
    let (events, write_events) = Events::new(client.clone());
    let proxy = Proxy {
        has_routes: config.real_node.is_some(),
        services: objects.services.clone(),
        registry: Arc::clone(&registry),
    };
    let hosting = Arc::new(Hosting {
        client,
        config,
        folder,
        api_server_port,
        objects,
        registry,
        events,
    });
    tokio::select! {
        () = pods::host_all(hosting, cancel) => {}
        () = async { tokio::join!(proxy.serve(listener), feed_objects, write_events); } => {}
    }
    Ok(())
}

/// Reason why a container cannot start yet, in a kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
struct WaitingReason {
    /// Reason in one word, as upstream.
    reason: &'static str,
    message: String,
}

impl WaitingReason {
    /// The container's configuration is not usable, for example because a Secret is missing.
    fn config(message: String) -> Self {
        Self {
            reason: "CreateContainerConfigError",
            message,
        }
    }

    fn unsupported(field: impl std::fmt::Display) -> Self {
        Self::config(format!("{field} is not supported in a hosted pod"))
    }

    /// The program of this image has not been built.
    fn image(message: String) -> Self {
        Self {
            reason: "ErrImagePull",
            message,
        }
    }

    /// The program could not be started.
    fn run(message: String) -> Self {
        Self {
            reason: "RunContainerError",
            message,
        }
    }

    /// A volume cannot be written yet.
    fn volume(message: String) -> Self {
        Self {
            reason: "ContainerCreating",
            message,
        }
    }
}
