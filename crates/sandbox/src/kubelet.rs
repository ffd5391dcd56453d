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
//! * Requests, limits, security contexts and read-only mounts are reported but not enforced.
//! * Usage is that of the processes, unless the pod has the annotation `sandbox.plimsoll.dev/own-usage`:
//!   then its program writes the annotations of its usage itself.
//! * Other containers of such a pod are simulated: running and ready, without a process.

pub mod image;
pub mod kwok_resources;

mod address;
mod atomic_writer;
mod backoff;
mod container;
mod environment;
mod events;
mod expansion;
mod fields;
mod pod_context;
mod pod_kubeconfig;

mod config_objects;
mod container_config;
mod container_order;
mod container_state;
mod destination;
#[cfg(test)]
mod fixture;
mod logs;
mod mounts;
mod pod;
mod pod_table;
mod pods;
mod probe;
mod probe_client;
mod prober;
mod process;
mod process_spec;
mod proxy;
mod resize;
mod restart;
mod service_links;
mod status;
mod stop;
mod tokens;
mod usage;
mod volume_writer;
mod volumes;
mod waiting_reason;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use self::address::{Block, Pool};
use self::config_objects::ObjectStore;
use self::events::Events;
use self::pod_table::PodTable;
use self::proxy::Proxy;
use self::waiting_reason::WaitingReason;

/// Configuration of hosting.
#[derive(Clone)]
pub struct Config {
    /// Client with every right.
    pub client: Client,
    /// Folder of our programs.
    pub binaries: PathBuf,
    /// Folder for the pods' volumes and logs.
    pub dir: PathBuf,
    /// Unix socket of the API server's egress selector (`cluster`, `HTTPConnect`).
    pub proxy_socket: PathBuf,
    pub api_server_port: u16,
    /// First restart delay of a container that ends again and again; a kubelet's is ten seconds.
    pub restart_back_off: Duration,
    /// The `sandbox` program, as exec wrapper of hosted processes.
    pub exec_wrapper: PathBuf,
    /// Name of the node with a kubelet of its own, if there is one.
    pub real_node: Option<&'static str>,
}

/// Reasons why hosting cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Every block of loopback addresses is in use.
    #[error("claim a block of loopback addresses")]
    Addresses(#[source] io::Error),
    /// The folder cannot be used.
    #[error("create folder {folder}")]
    Folder {
        /// Path in the configuration.
        folder: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The socket cannot be used.
    #[error("listen on {socket}")]
    Socket {
        /// Path in the configuration.
        socket: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// State that all hosted pods share.
struct Hosting {
    config: Config,
    objects: ObjectStore,
    registry: Arc<PodTable>,
    events: Events,
}

/// Hosts pods and serves the proxy until cancelled; then ends all processes and returns.
pub async fn run(config: Config, cancel: CancellationToken) -> Result<(), Error> {
    let block = Block::claim(&config.dir).map_err(Error::Addresses)?;
    let folder_error = |source| Error::Folder {
        folder: config.dir.clone(),
        source,
    };
    atomic_writer::make_folder(&config.dir).map_err(folder_error)?;
    let listener = proxy::listen(&config.proxy_socket);
    let listener = listener.map_err(|source| Error::Socket {
        socket: config.proxy_socket.clone(),
        source,
    })?;
    let registry = Arc::new(PodTable::new(Pool::new(block.octet())));
    let (services, feed_services) = services(&config.client);
    let (objects, feed_objects) = ObjectStore::watch(&config.client);
    let (events, write_events) = Events::new(config.client.clone());
    let proxy = Proxy {
        has_routes: config.real_node.is_some(),
        services,
        registry: Arc::clone(&registry),
    };
    let hosting = Arc::new(Hosting {
        config,
        objects,
        registry,
        events,
    });
    tokio::select! {
        () = pods::host_all(hosting, cancel) => {}
        () = async { tokio::join!(proxy.serve(listener), feed_services, feed_objects, write_events); } => {}
    }
    Ok(())
}

fn services(client: &Client) -> (reflector::Store<Service>, impl Future<Output = ()> + use<>) {
    let (store, writer) = reflector::store();
    let stream = watcher(
        Api::<Service>::all(client.clone()),
        watcher::Config::default(),
    );
    let feed = stream.default_backoff().reflect(writer).for_each(|event| {
        if let Err(error) = event {
            tracing::debug!(%error, "the watch of services was interrupted");
        }
        std::future::ready(())
    });
    (store, feed)
}
