//! A `TimeSeriesPrediction` object with its samples parsed to numbers.

use std::collections::BTreeSet;

use api::prediction::{self, PredictedSample, PredictedSeries, TimeSeriesPrediction};
use model::{Labels, WorkloadRef};

use crate::table::ObjectKey;
use crate::workload_controller::Owner;

/// Key and value of the label on every object that an EHPA owns.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "effective-hpa-controller");

#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    pub key: ObjectKey,
    /// Unique identifier; an object recreated under the same name has another one.
    pub uid: String,
    /// Unique identifier of its controller.
    pub controller_uid: Option<String>,
    pub labels: Labels,
    pub target: WorkloadRef,
    /// Prediction window in seconds, at most the predicted span.
    pub window_seconds: i32,
    /// One entry per metric of the specification or the status.
    pub metrics: Vec<PredictedMetric>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PredictedMetric {
    /// Identifier of the metric within the object, such as `resource.cpu`.
    pub identifier: Box<str>,
    /// Whether the prediction covers the whole window.
    pub ready: bool,
    /// Series of (Unix time in seconds, value).
    pub series: Vec<Vec<(i64, f64)>>,
}

impl Prediction {
    pub fn from_k8s(object: TimeSeriesPrediction) -> Self {
        let TimeSeriesPrediction {
            metadata,
            spec,
            status,
        } = object;
        let key = ObjectKey::from(&metadata);
        let (window_seconds, target) = (spec.effective_window_seconds(), spec.target_ref);
        let namespace = if target.namespace.is_empty() {
            key.namespace.clone()
        } else {
            target.namespace
        };
        let mut metrics: Vec<_> = status
            .unwrap_or_default()
            .prediction_metrics
            .into_iter()
            .map(metric)
            .collect();
        let known: BTreeSet<_> = metrics
            .iter()
            .map(|metric| metric.identifier.clone())
            .collect();
        // A metric without a status is not ready.
        let wanted = spec
            .prediction_metrics
            .into_iter()
            .map(|metric| metric.resource_identifier.into_boxed_str());
        let unknown = wanted.filter(|identifier| !known.contains(identifier));
        metrics.extend(unknown.map(|identifier| PredictedMetric {
            identifier,
            ready: false,
            series: Vec::new(),
        }));
        Self {
            key,
            controller_uid: Owner::controller(metadata.owner_references).map(|owner| owner.uid),
            uid: metadata.uid.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default().into(),
            target: WorkloadRef {
                api_version: target.api_version,
                kind: target.kind,
                namespace,
                name: target.name,
            },
            window_seconds,
            metrics,
        }
    }
}

fn metric(metric: prediction::MetricPrediction) -> PredictedMetric {
    // Values that are not finite numbers are skipped.
    let sample = |sample: PredictedSample| {
        let value = sample
            .value
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())?;
        Some((sample.timestamp, value))
    };
    let series = |series: PredictedSeries| series.samples.into_iter().filter_map(sample).collect();
    PredictedMetric {
        identifier: metric.resource_identifier.into(),
        ready: metric.ready,
        series: metric.prediction.into_iter().map(series).collect(),
    }
}

#[cfg(test)]
mod tests {
    use api::prediction::LONGEST_WINDOW_SECONDS;
    use serde_json::{Value, json};

    use super::*;
    use crate::table::Entry as _;

    fn read(window_seconds: i32, status: &Value) -> Prediction {
        let algorithm = json!({"algorithmType": "dsp"});
        let metric = |identifier: &str| json!({"resourceIdentifier": identifier, "type": "ResourceQuery", "resourceQuery": "cpu", "algorithm": algorithm});
        let object = json!({
            "apiVersion": "prediction.crane.io/v1alpha1", "kind": "TimeSeriesPrediction",
            "metadata": {"namespace": "shop", "name": "ehpa-web"},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "predictionWindowSeconds": window_seconds,
                "predictionMetrics": [metric("resource.cpu"), metric("resource.memory")],
            },
            "status": status,
        });
        Prediction::from_k8s(api::parse_text(object.to_string().as_bytes()).expect("a prediction"))
    }

    /// Identifier, readiness and series.
    type Metric<'a> = (&'a str, bool, &'a [&'a [(i64, f64)]]);

    fn check(status: &Value, expected: &[Metric]) {
        let read = read(3600, status);
        let target = read.target_workload().expect("a workload");
        assert_eq!(target.to_string(), "Deployment shop/web");
        let found = read.metrics.iter().map(|metric| {
            let series: Vec<_> = metric.series.iter().map(Vec::as_slice).collect();
            (&*metric.identifier, metric.ready, series)
        });
        let expected = expected
            .iter()
            .map(|(name, ready, series)| (*name, *ready, series.to_vec()));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn samples_are_numbers_and_metrics_without_any_are_not_ready() {
        let sample = |timestamp: i64, value: &str| json!({"timestamp": timestamp, "value": value});
        let samples = json!([
            sample(60, "0.50000"),
            sample(120, "NaN"),
            sample(180, "1e3"),
            sample(240, "much")
        ]);
        let cpu = json!({"resourceIdentifier": "resource.cpu", "ready": true, "prediction": [{"samples": samples}]});
        check(
            &json!({"predictionMetrics": [cpu]}),
            &[
                ("resource.cpu", true, &[&[(60, 0.5), (180, 1000.0)]]),
                ("resource.memory", false, &[]),
            ],
        );
        check(
            &Value::Null,
            &[
                ("resource.cpu", false, &[]),
                ("resource.memory", false, &[]),
            ],
        );
    }

    #[test]
    fn the_window_is_at_most_the_predicted_span() {
        for (window_seconds, expected) in [
            (600, 600),
            (LONGEST_WINDOW_SECONDS, 604_800),
            (2_000_000, 604_800),
        ] {
            assert_eq!(read(window_seconds, &Value::Null).window_seconds, expected);
        }
    }
}
