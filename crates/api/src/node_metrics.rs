//! `NodeMetrics` of `metrics.k8s.io/v1beta1`, as returned by metrics-server and other providers.
//! Read only.
//!
//! Source: `k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;

use crate::pod_metrics::{Usage, names};

/// Usage of a node over one window.
#[derive(Deserialize, Clone, Debug, PartialEq)]
pub struct NodeMetrics {
    /// Name of the node. Other metadata such as labels is dropped while parsing.
    #[serde(default, deserialize_with = "names")]
    pub metadata: ObjectMeta,
    /// End of the window.
    pub timestamp: Time,
    /// Length of the window as a Go duration, such as `10.062s`.
    #[serde(default)]
    pub window: String,
    /// Usage of the whole node.
    #[serde(default)]
    pub usage: Usage,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_of_a_metrics_server_is_read() {
        let metrics: NodeMetrics = serde_json::from_value(json!({
            "kind": "NodeMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}},
            "timestamp": "2026-01-01T12:34:56Z", "window": "10.062s",
            "usage": {"cpu": "1250117203n", "memory": "much"},
        }))
        .expect("node metrics");
        assert_eq!(metrics.metadata.name.as_deref(), Some("n1"));
        assert_eq!(metrics.metadata.labels, None);
        assert_eq!(metrics.timestamp.0.as_second(), 1_767_270_896);
        let cpu = Some("1250117203n".parse().expect("a quantity"));
        assert_eq!(metrics.usage, Usage { cpu, memory: None });
    }
}
