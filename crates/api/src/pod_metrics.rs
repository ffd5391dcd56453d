//! `PodMetrics` and `NodeMetrics` of `metrics.k8s.io/v1beta1`, as returned by metrics-server and other
//! providers. Read only.
//!
//! Source: `k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go`. A missing or invalid resource is
//! `None` and never 0: upstream's recommender would count a zero as a sample.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use model::Quantity;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Usage of a pod's containers over one window.
#[derive(Deserialize, Clone, Debug, PartialEq)]
pub struct PodMetrics {
    /// Name and namespace of the pod. A response covers all pods of a cluster, so other metadata
    /// such as labels is dropped while parsing.
    #[serde(default, deserialize_with = "names")]
    pub metadata: ObjectMeta,
    /// End of the window.
    pub timestamp: Time,
    /// Length of the window as a Go duration, such as `10.062s`.
    #[serde(default)]
    pub window: String,
    /// Measured containers.
    #[serde(default)]
    pub containers: Vec<ContainerMetrics>,
}

/// Usage of one container.
#[derive(Deserialize, Clone, Debug, PartialEq)]
pub struct ContainerMetrics {
    /// Name of the container.
    pub name: String,
    /// Usage of the container.
    #[serde(default)]
    pub usage: Usage,
}

/// Usage of a container. A resource that was not measured is `None`.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Usage {
    /// CPU, in cores, averaged over the window.
    #[serde(deserialize_with = "tolerant")]
    pub cpu: Option<Quantity>,
    /// Memory working set, in bytes, at the end of the window.
    #[serde(deserialize_with = "tolerant")]
    pub memory: Option<Quantity>,
}

/// Keeps name and namespace only.
pub(crate) fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    struct Names {
        name: Option<String>,
        namespace: Option<String>,
    }
    let Names { name, namespace } = Names::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name,
        namespace,
        ..ObjectMeta::default()
    })
}

/// One invalid value must not discard the metrics of all pods in the response.
pub(crate) fn tolerant<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Quantity>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(Option::<Quantity>::deserialize(value).ok().flatten())
}

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
    fn a_resource_without_a_readable_value_is_none_and_never_zero() {
        for (usage, cpu, memory) in [
            (
                json!({"cpu": "250m", "memory": "3Mi"}),
                Some("250m"),
                Some("3Mi"),
            ),
            (json!({"cpu": "117203n"}), Some("117203n"), None),
            (json!({"memory": 1024}), None, Some("1Ki")),
            (json!({"cpu": "0", "memory": "0"}), Some("0"), Some("0")),
            (json!({"cpu": "much", "memory": null}), None, None),
            (json!({}), None, None),
        ] {
            let parsed: Usage = serde_json::from_value(usage.clone()).unwrap();
            let [cpu, memory] =
                [cpu, memory].map(|text: Option<&str>| text.map(|text| text.parse().unwrap()));
            assert_eq!(parsed, Usage { cpu, memory }, "{usage}");
        }
    }

    #[test]
    fn the_answer_of_a_metrics_server_is_read() {
        let metrics: PodMetrics = serde_json::from_value(json!({
            "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {
                "name": "web-0", "namespace": "shop", "creationTimestamp": "2026-01-01T12:34:56Z",
                "labels": {"app": "web"}, "annotations": {"note": "long"}, "managedFields": [{"manager": "x"}],
            },
            "timestamp": "2026-01-01T12:34:56Z", "window": "10.062s",
            "containers": [{"name": "app", "usage": {"cpu": "250m"}}, {"name": "sidecar"}],
        }))
        .unwrap();
        let names = ObjectMeta {
            name: Some("web-0".to_owned()),
            namespace: Some("shop".to_owned()),
            ..ObjectMeta::default()
        };
        assert_eq!(metrics.metadata, names, "nothing else is kept");
        assert_eq!(metrics.timestamp.0.as_second(), 1_767_270_896);
        assert_eq!(metrics.window, "10.062s");
        let cpu = Some("250m".parse().unwrap());
        assert_eq!(metrics.containers[0].usage.cpu, cpu);
        assert_eq!(metrics.containers[1].usage, Usage::default());
    }

    #[test]
    fn the_answer_about_nodes_is_read() {
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
