//! `ExternalMetricValueList` of `external.metrics.k8s.io/v1beta1`, as returned by adapters such as
//! prometheus-adapter and KEDA. Read only.
//!
//! Source: `k8s.io/metrics/pkg/apis/external_metrics/v1beta1/types.go`. An invalid value is `None`,
//! never 0.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::Quantity;
use serde::{Deserialize, Deserializer};

use crate::pod_metrics::tolerant;

/// `apiVersion` of the list.
pub const API_VERSION: &str = "external.metrics.k8s.io/v1beta1";

/// Values of the series of one metric that match a selector.
#[derive(Deserialize, Clone, Debug, PartialEq)]
pub struct ExternalMetricValueList {
    /// One entry per series.
    #[serde(default)]
    pub items: Vec<ExternalMetricValue>,
}

/// The newest value of one series.
#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetricValue {
    /// Name of the metric.
    #[serde(default)]
    pub metric_name: String,
    /// Labels of the series.
    #[serde(default, deserialize_with = "or_default")]
    pub metric_labels: BTreeMap<String, String>,
    /// Time of the measurement.
    pub timestamp: Time,
    /// Length of the measurement window in seconds; `None` for an instant.
    #[serde(default)]
    pub window: Option<i64>,
    /// Measured value.
    #[serde(default, deserialize_with = "tolerant")]
    pub value: Option<Quantity>,
}

/// Go encodes a nil map as null.
fn or_default<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_of_an_adapter_is_read() {
        let list: ExternalMetricValueList = serde_json::from_value(json!({
            "kind": "ExternalMetricValueList", "apiVersion": API_VERSION, "metadata": {},
            "items": [
                {
                    "metricName": "container_cpu", "metricLabels": {"container": "app"},
                    "timestamp": "2026-01-01T12:34:56Z", "window": 60, "value": "117203n",
                },
                {"metricName": "container_cpu", "metricLabels": null, "timestamp": "2026-01-01T12:34:56Z", "value": "?"},
            ],
        }))
        .unwrap_or_else(|error| panic!("{error}"));
        let [first, second] = &list.items[..] else {
            panic!("two items: {list:?}")
        };
        assert_eq!(first.metric_name, "container_cpu");
        assert_eq!(first.window, Some(60));
        assert_eq!(first.metric_labels["container"], "app");
        assert_eq!(first.value, Some("117203n".parse().unwrap()));
        assert!(second.metric_labels.is_empty());
        assert_eq!(second.value, None);
    }
}
