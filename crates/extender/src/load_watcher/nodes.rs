//! Capacity and addresses of the nodes, kept current by a watch.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource};
use model::{Cpu, Memory, Quantity};
use parking_lot::RwLock;
use serde::{Deserialize, Deserializer};
use tokio::sync::watch;

/// Maximum number of addresses per node.
const MAX_ADDRESSES: usize = 16;

/// Nodes by name.
pub(super) type Nodes = HashMap<String, NodeInfo>;

/// Size and addresses of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct NodeInfo {
    /// Capacity in millicores; `None` if unknown or 0.
    pub(super) millicores: Option<f64>,
    /// Capacity in bytes; `None` if unknown or 0.
    pub(super) memory_bytes: Option<f64>,
    /// IP addresses and host names.
    pub(super) addresses: Vec<String>,
}

/// All nodes of the cluster. Clones share them.
#[derive(Clone, Default)]
pub(super) struct NodeTable {
    nodes: Arc<RwLock<Nodes>>,
    is_synced: Arc<watch::Sender<bool>>,
}

/// A node without the fields that are not read.
#[derive(Debug, Clone, Deserialize)]
struct Node {
    #[serde(deserialize_with = "slim")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    capacity: BTreeMap<String, String>,
    addresses: Option<Vec<Address>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Address {
    address: String,
}

/// Keeps the name and the resource version, which a watch continues from.
fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let ObjectMeta {
        name,
        resource_version,
        ..
    } = ObjectMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name,
        resource_version,
        ..ObjectMeta::default()
    })
}

impl Resource for Node {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl NodeInfo {
    fn from_k8s(status: Status) -> Self {
        let quantity = |name: &str| status.capacity.get(name)?.parse::<Quantity>().ok();
        let positive = |value: i64| (value > 0).then_some(value as f64);
        let millicores = quantity("cpu").and_then(|cpu| positive(Cpu::from(&cpu).millicores()));
        let memory_bytes = quantity("memory").and_then(|memory| {
            let bytes = Memory::from(&memory).bytes();
            positive(bytes)
        });
        let addresses = status.addresses.into_iter().flatten();
        Self {
            millicores,
            memory_bytes,
            addresses: addresses
                .take(MAX_ADDRESSES)
                .map(|address| address.address)
                .collect(),
        }
    }
}

impl NodeTable {
    /// Waits for the first complete list.
    pub(super) async fn synced(&self) {
        let mut is_synced = self.is_synced.subscribe();
        // The sender lives as long as this.
        let _ = is_synced.wait_for(|is_synced| *is_synced).await;
    }

    /// Reads all nodes. Keep `read` short.
    pub(super) fn with<T>(&self, read: impl FnOnce(&Nodes) -> T) -> T {
        read(&self.nodes.read())
    }

    /// Follows the nodes of the cluster for ever. After an error the last nodes stay.
    pub(super) async fn follow(self, client: Client) {
        let api: Api<Node> = Api::all(client);
        let events = watcher(api, Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let mut listed = Nodes::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(node)) => insert(&mut listed, node),
                Ok(Event::InitDone) => {
                    *self.nodes.write() = std::mem::take(&mut listed);
                    self.is_synced.send_replace(true);
                }
                Ok(Event::Apply(node)) => insert(&mut self.nodes.write(), node),
                Ok(Event::Delete(node)) => {
                    let name = node.metadata.name.unwrap_or_default();
                    self.nodes.write().remove(&name);
                }
                Err(error) => tracing::warn!(%error, "cannot watch nodes; retrying"),
            }
        }
    }
}

fn insert(nodes: &mut Nodes, node: Node) {
    let name = node.metadata.name.unwrap_or_default();
    nodes.insert(name, NodeInfo::from_k8s(node.status));
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
            (json!({"cpu": "0", "memory": "many"}), None, None),
            (json!({"cpu": "-1"}), None, None),
            (json!({}), None, None),
        ] {
            let node = json!({
                "metadata": {"name": "n1", "labels": {"a": "b"}},
                "spec": {"podCIDR": "10.0.0.0/24"},
                "status": {"capacity": capacity, "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}]},
            });
            let node: Node = serde_json::from_value(node).expect("a node");
            assert_eq!(node.metadata.labels, None);
            let expected = NodeInfo {
                millicores,
                memory_bytes,
                addresses: vec!["10.1.0.1".to_owned()],
            };
            assert_eq!(NodeInfo::from_k8s(node.status), expected);
        }
    }
}
