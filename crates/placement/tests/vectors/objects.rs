//! Kubernetes objects and metrics of the recordings.

use placement::{Amounts, Container, Metric, MetricOperator, MetricType, PodSpec};
use serde::Deserialize;
use serde_json::Value;
use testing::vectors::{items, or_default};

/// A Kubernetes Node, as JSON.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Node(Value);

impl Node {
    pub(crate) fn capacity(&self) -> Amounts {
        Amounts::of(&or_default(&self.0["status"]["capacity"]))
    }

    pub(crate) fn allocatable(&self) -> Amounts {
        Amounts::of(&or_default(&self.0["status"]["allocatable"]))
    }
}

/// A Kubernetes Pod, as JSON.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Pod(Value);

impl Pod {
    pub(crate) fn spec(&self) -> PodSpec {
        let container = |container: &Value| Container {
            name: container["name"].as_str().expect("a name").to_owned(),
            requests: or_default(&container["resources"]["requests"]),
            limits: or_default(&container["resources"]["limits"]),
        };
        let spec = &self.0["spec"];
        PodSpec {
            containers: items(&spec["containers"]).map(container).collect(),
            init_containers: items(&spec["initContainers"]).map(container).collect(),
            overhead: or_default(&spec["overhead"]),
            ..PodSpec::default()
        }
    }
}

/// An average or latest value of CPU: `Peaks` reads the first one, `TargetLoadPacking` the last one.
pub(crate) fn cpu_average(metric: &Metric) -> Option<f64> {
    let is_average = matches!(
        metric.operator,
        MetricOperator::Average | MetricOperator::Latest
    );
    (metric.metric_type == MetricType::Cpu && is_average && metric.value.is_finite())
        .then_some(metric.value)
}

#[derive(Deserialize)]
struct WrittenMetric {
    #[serde(rename = "type")]
    metric_type: String,
    operator: String,
    value: f64,
}

/// Metrics of the node; `None` when upstream's collector knows none.
#[derive(Deserialize)]
pub(crate) struct Measured {
    metrics: Option<Vec<WrittenMetric>>,
    metrics_state: String,
}

impl Measured {
    pub(crate) fn metrics(&self) -> Option<Vec<Metric>> {
        match self.metrics_state.as_str() {
            "present" => {}
            "present but empty" | "node unknown" | "never populated" => return None,
            other => panic!("the state {other} is not known"),
        }
        let metric = |written: &WrittenMetric| Metric {
            metric_type: written.metric_type.as_str().into(),
            operator: written.operator.as_str().into(),
            value: written.value,
        };
        Some(self.metrics.iter().flatten().map(metric).collect())
    }
}
