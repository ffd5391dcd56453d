//! Current usage of all nodes from `metrics.k8s.io/v1beta1`.
//!
//! One list of `NodeMetrics` gives one sample per node, with the provider's timestamp. CPU is
//! rounded up to millicores, memory to bytes.

use api::pod_metrics::NodeMetrics;
use jiff::Timestamp;
use kube::Client;
use model::{Cpu, Memory};

use crate::metrics_api::{MetricsApiError, PATH, list};

/// Maximum number of nodes in one response, far above the size of a cluster.
const MAX_NODES: usize = 50_000;

/// Metrics API of nodes. The client limits the size of responses.
#[derive(Clone)]
pub struct NodeMetricsApi(Client);

#[derive(Debug, Clone, PartialEq)]
pub struct NodeUsage {
    pub node: String,
    pub at: Timestamp,
    /// CPU, averaged over the provider's window; `None` if it was not measured.
    pub cpu: Option<Cpu>,
    /// Memory working set; `None` if it was not measured.
    pub memory: Option<Memory>,
}

impl NodeMetricsApi {
    /// Nodes of the cluster of `client`.
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    pub async fn read(&self) -> Result<Vec<NodeUsage>, MetricsApiError> {
        let nodes: Vec<NodeMetrics> = list(&self.0, &format!("{PATH}/nodes"), MAX_NODES).await?;
        Ok(nodes.into_iter().map(usage).collect())
    }
}

fn usage(node: NodeMetrics) -> NodeUsage {
    NodeUsage {
        node: node.metadata.name.unwrap_or_default(),
        at: node.timestamp.0,
        cpu: node.usage.cpu.as_ref().map(Cpu::from),
        memory: node.usage.memory.as_ref().map(Memory::from),
    }
}
