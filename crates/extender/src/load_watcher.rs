//! Measured load of nodes in windows of 15, 10 and 5 minutes.
//!
//! Every replica collects for itself. A collection reads metrics-server or Prometheus, leaves out
//! bad values, and replaces the [`Snapshots`], the answers of the REST API and the cache on disk.
//!
//! | topic | file |
//! |---|---|
//! | windows from samples of metrics-server | `samples.rs` |
//! | queries to Prometheus | `prometheus_source.rs` |
//! | loop, bad values, staleness | `collector.rs` |
//! | newest load of each window | `collected.rs` |
//! | JSON of load-watcher | `document.rs` |
//! | REST API of load-watcher | `rest_api.rs` |
//! | cache on disk | `cache.rs` |

mod cache;
mod collected;
mod collector;
mod document;
mod prometheus_source;
mod rest_api;
mod samples;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use placement::LoadSnapshot;
use prometheus::{Gauge, IntCounterVec, IntGauge, IntGaugeVec};
use runtime::address::listen_ip_from_environment;
use runtime::own_pod::hostname;
use runtime::{ListenAddress, Manager};
use serving::http_server::{Limits, serve};
use tokio::sync::watch;
use view::{Node, View};

pub use collected::Provider;
pub use collector::Collector;
pub use prometheus_source::{LoadQueries, PrometheusConfig};
pub use rest_api::RestApi;

/// The newest measured load. The sender replaces the whole snapshot after each collection.
pub type Snapshots = watch::Receiver<Arc<LoadSnapshot>>;

pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Age from which on load counts as missing; the bound of KEP-61.
pub const MAX_AGE: SignedDuration = SignedDuration::from_mins(5);

pub const LIMITS: Limits = Limits {
    connections: 64,
    unauthenticated: 64,
    streams: 1,
    header_timeout: Duration::from_secs(10),
    // Go's client closes connections that were idle for 90 s.
    idle_timeout: Duration::from_mins(2),
    request_timeout: Duration::from_secs(10),
    connection_age: Duration::from_mins(10),
    headers: 100,
    body_bytes: 0,
};

runtime::metrics! {
    struct Metrics {
        collections: IntCounterVec { result }
            = "plimsoll_load_watcher_collections_total",
            "Collections of the load of nodes by result: success, error.";
        query_errors: IntCounterVec { resource }
            = "plimsoll_load_watcher_query_errors_total",
            "Failed queries to Prometheus by resource: cpu, memory, network, disk.";
        nodes: IntGauge = "plimsoll_load_watcher_nodes", "Nodes of the cluster.";
        nodes_without_load: IntGauge = "plimsoll_load_watcher_nodes_without_load",
            "Nodes of the cluster without load in any fresh window.";
        newest_sample_age: Gauge = "plimsoll_load_watcher_newest_sample_age_seconds",
            "Age of the newest sample of any node in seconds, at the last collection. +Inf without a sample.";
        bad_values: IntGaugeVec { window, defect } = "plimsoll_load_watcher_bad_values",
            "Values that the last collection left out, by window and defect: not_finite, out_of_range, frozen, missing.";
        cache_writes: IntCounterVec { result }
            = "plimsoll_load_watcher_cache_writes_total",
            "Writes of the cache on disk by result: success, error, skipped.";
        requests: IntCounterVec { code } = "plimsoll_load_watcher_requests_total",
            "Requests to the REST API of load-watcher by status code.";
    }
}

/// Source and interval of collections.
#[derive(Debug, Clone)]
pub struct LoadWatcherConfig {
    /// Prometheus; `None` means metrics-server.
    pub prometheus: Option<PrometheusConfig>,
    /// Interval between the begins of two collections.
    pub interval: Duration,
    /// Number of equal values from which on they count as frozen.
    pub frozen_after: u32,
    pub cache_folder: Option<PathBuf>,
}

/// Starts the collections, and the REST API on `address`. `cluster` has the nodes. Returns the load
/// for scores.
pub async fn start(
    config: LoadWatcherConfig,
    address: ListenAddress,
    cluster: watch::Receiver<View>,
    manager: &Manager,
) -> anyhow::Result<Snapshots> {
    let address = address.or_host(listen_ip_from_environment()?);
    let listener = address
        .bind()
        .await
        .with_context(|| format!("cannot listen on loadWatcher.address={address}"))?;
    tracing::info!(address = %listener.local_addr()?, "serving the API of load-watcher");
    let clock = manager.clock();
    let clock: Clock = Arc::new(move || clock.timestamp());
    let (client, registry) = (manager.client.clone(), &manager.registry);
    let collector = Collector::new(config, client, cluster, clock, registry, &hostname()?)?;
    let snapshots = collector.snapshots();
    let router = collector.rest_api().router();
    let shutdown = manager.shutdown.clone();
    manager.tasks.spawn("REST API of load-watcher", async move {
        serve(listener, router, None, LIMITS, shutdown).await;
        Ok(())
    });
    let condition = manager.readiness.condition("load_watcher");
    let collecting = collector.run(condition, manager.activity.clone());
    manager
        .tasks
        .spawn_until_shutdown("load watcher", collecting);
    Ok(snapshots)
}

type Nodes = HashMap<String, NodeInfo>;

/// Size and addresses of a node.
#[derive(Debug, Clone, Default, PartialEq)]
struct NodeInfo {
    /// Capacity in millicores; `None` if unknown or 0.
    millicores: Option<f64>,
    /// Capacity in bytes; `None` if unknown or 0.
    memory_bytes: Option<f64>,
    addresses: Vec<String>,
}

impl NodeInfo {
    fn of(node: &Node) -> Self {
        let positive = |amount: i64| (amount > 0).then_some(amount as f64);
        let capacity = &node.capacity;
        Self {
            millicores: capacity.cpu.and_then(|cpu| positive(cpu.millicores())),
            memory_bytes: capacity.memory.and_then(|memory| positive(memory.bytes())),
            addresses: node.addresses.clone(),
        }
    }
}

fn nodes(view: &View) -> Nodes {
    let named = |node: &std::sync::Arc<Node>| (node.name.clone(), NodeInfo::of(node));
    view.nodes.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_capacity_of_a_node_is_read_and_zero_is_unknown() {
        for (capacity, millicores, memory_bytes) in [
            (
                json!({"cpu": "4", "memory": "8Gi", "pods": "110"}),
                Some(4000.0),
                Some(8.0 * 1_073_741_824.0),
            ),
            (json!({"cpu": "0", "memory": "0"}), None, None),
            (json!({"cpu": "-1"}), None, None),
            (json!({}), None, None),
        ] {
            let node = json!({
                "metadata": {"name": "n1"},
                "status": {"capacity": capacity, "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}]},
            });
            let node = Node::from_k8s(serde_json::from_value(node).expect("a node"));
            let expected = NodeInfo {
                millicores,
                memory_bytes,
                addresses: vec!["10.1.0.1".to_owned()],
            };
            assert_eq!(NodeInfo::of(&node), expected);
        }
    }
}
