//! Kubernetes objects and metrics of the recordings.

use model::ResourceList;
use placement::{Amounts, Container, Metric, MetricOperator, MetricType, PodSpec};
use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Node {
    status: NodeStatus,
}

#[derive(Deserialize)]
struct NodeStatus {
    #[serde(default)]
    capacity: ResourceList,
    #[serde(default)]
    allocatable: ResourceList,
}

impl Node {
    pub(crate) fn capacity(&self) -> Amounts {
        Amounts::of(&self.status.capacity)
    }

    pub(crate) fn allocatable(&self) -> Amounts {
        Amounts::of(&self.status.allocatable)
    }
}

#[derive(Deserialize)]
pub(crate) struct Pod {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    containers: Option<Vec<WrittenContainer>>,
    #[serde(default)]
    init_containers: Vec<WrittenContainer>,
    #[serde(default)]
    overhead: ResourceList,
}

#[derive(Clone, Deserialize)]
struct WrittenContainer {
    name: String,
    #[serde(default)]
    resources: Resources,
}

#[derive(Clone, Default, Deserialize)]
struct Resources {
    #[serde(default)]
    requests: ResourceList,
    #[serde(default)]
    limits: ResourceList,
}

impl Pod {
    pub(crate) fn spec(&self) -> PodSpec {
        let containers = |written: &[WrittenContainer]| {
            let container = |container: WrittenContainer| Container {
                name: container.name,
                requests: container.resources.requests,
                limits: container.resources.limits,
            };
            written.iter().cloned().map(container).collect()
        };
        PodSpec {
            containers: containers(self.spec.containers.as_deref().unwrap_or_default()),
            init_containers: containers(&self.spec.init_containers),
            overhead: self.spec.overhead.clone(),
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
