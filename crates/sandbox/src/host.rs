//! Hosts the suite's own pods as local processes. A sandbox has no container engine: pods with
//! other images are played by KWOK, and a pod with an image of ours
//! (`[registry/]plimsoll/<program>[:tag]`) runs `<binaries>/<program>` here, with the pod's
//! arguments, environment, `ServiceAccount` token, Secrets, `ConfigMap`s, probes and restarts. This
//! module is the small kubelet that does it, and the proxy through which the API server reaches
//! such pods.
//!
//! What differs from a container:
//!
//! * There is no file system of its own. Volumes live in the pod's folder; an argument or
//!   environment value that names a path below a mount path is rewritten. The `ServiceAccount`
//!   comes as a kubeconfig named by `KUBECONFIG`.
//! * There is no network of its own. Each pod has a loopback address, which `status.podIP` names
//!   only up to its first octet; programs must listen on it (`PLIMSOLL_LISTEN_IP`, or the
//!   `status.podIP` field).
//! * Requests, limits, security contexts and read-only mounts are reported but not enforced.
//! * Other containers of such a pod are played: running and ready, without a process.

pub mod image;
pub mod kwok;

mod access;
mod address;
mod atomic_writer;

mod backoff;
mod container;
mod context;
mod environment;
mod events;
mod expansion;
mod fields;

#[cfg(test)]
mod fixtures;
mod launch;
mod logs;
mod mounts;
mod objects;

mod pod;
mod pods;
mod preparation;
mod probe;
mod probe_client;
mod prober;
mod problem;
mod process;
mod proxy;
mod registry;
mod report;
mod resize;
mod resolve;
mod restart;
mod sequence;
mod status;
mod stop;
mod tokens;
mod usage;
mod volume_writer;
mod volumes;

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
use self::events::Events;
use self::objects::ObjectStore;
use self::problem::Problem;
use self::proxy::Proxy;
use self::registry::Registry;

/// What hosting needs to know.
#[derive(Clone)]
pub struct Config {
    /// Talks to the API server with every right.
    pub client: Client,
    /// Folder of our programs, by name.
    pub binaries: PathBuf,
    /// Folder for the pods' volumes and logs.
    pub dir: PathBuf,
    /// Unix socket of the API server's egress selector (`cluster`, `HTTPConnect`).
    pub proxy_socket: PathBuf,
    /// On 127.0.0.1.
    pub api_server_port: u16,
    /// The first wait of a container that ends again and again; a kubelet's is ten seconds.
    pub restart_back_off: Duration,
    /// The program whose hidden subcommand ties a process to this one: `sandbox` itself.
    pub exec_wrapper: PathBuf,
}

/// Why hosting could not begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Every block of loopback addresses is in use.
    #[error("claim a block of loopback addresses")]
    Addresses(#[source] io::Error),
    /// The folder cannot be used.
    #[error("create folder {folder}")]
    Folder {
        /// The one in the configuration.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The socket cannot be used.
    #[error("listen on {socket}")]
    Socket {
        /// The one in the configuration.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What all hosted pods share.
struct Hosting {
    config: Config,
    objects: ObjectStore,
    registry: Arc<Registry>,
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
    let registry = Arc::new(Registry::new(Pool::new(block.octet())));
    let (services, feed_services) = services(&config.client);
    let (objects, feed_objects) = ObjectStore::watch(&config.client);
    let (events, write_events) = Events::new(config.client.clone());
    let proxy = Proxy {
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
            tracing::debug!(%error, "watch of services interrupted");
        }
        std::future::ready(())
    });
    (store, feed)
}
