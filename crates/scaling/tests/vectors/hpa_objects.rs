//! Kubernetes objects as recorded, and values of pods.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::ResourceList;
use scaling::hpa::{
    Container, Phase, Pod, PodMetric, PodMetrics, ReadyCondition, ReadyStatus, Requests,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodObject {
    metadata: Metadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    deletion_timestamp: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    init_containers: Vec<ContainerObject>,
    containers: Vec<ContainerObject>,
    #[serde(default)]
    resources: Resources,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerObject {
    name: String,
    restart_policy: Option<String>,
    #[serde(default)]
    resources: Resources,
}

#[derive(Default, Deserialize)]
struct Resources {
    #[serde(default)]
    requests: ResourceList,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    phase: String,
    #[serde(default)]
    conditions: Vec<Condition>,
    start_time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    r#type: String,
    status: String,
    last_transition_time: Timestamp,
}

#[derive(Deserialize)]
pub(crate) struct MetricValue {
    pod: String,
    timestamp: Timestamp,
    value_milli: i64,
    window_ns: i64,
}

impl PodObject {
    pub(crate) fn to_pod(&self) -> Pod {
        let is_sidecar = |init: &&ContainerObject| init.restart_policy.as_deref() == Some("Always");
        let sidecars = self.spec.init_containers.iter().filter(is_sidecar);
        let containers = self.spec.containers.iter().chain(sidecars);
        let containers = containers.map(|container| Container {
            name: container.name.clone(),
            requests: container.resources.requests.clone(),
        });
        Pod {
            name: self.metadata.name.clone(),
            deleted: self.metadata.deletion_timestamp.is_some(),
            phase: match self.status.phase.as_str() {
                "Pending" => Phase::Pending,
                "Running" => Phase::Running,
                "Succeeded" => Phase::Succeeded,
                "Failed" => Phase::Failed,
                "Unknown" => Phase::Unknown,
                other => panic!("phase {other}"),
            },
            ready: self
                .status
                .conditions
                .iter()
                .find(|condition| condition.r#type == "Ready")
                .map(Condition::ready),
            started: self.status.start_time,
            requests: Requests {
                pod: self.spec.resources.requests.clone(),
                containers: containers.collect(),
            },
        }
    }
}

impl Condition {
    fn ready(&self) -> ReadyCondition {
        let status = match self.status.as_str() {
            "True" => ReadyStatus::True,
            "False" => ReadyStatus::False,
            "Unknown" => ReadyStatus::Unknown,
            other => panic!("status {other}"),
        };
        ReadyCondition {
            status,
            since: self.last_transition_time,
        }
    }
}

pub(crate) fn pods(objects: &[PodObject]) -> Vec<Pod> {
    objects.iter().map(PodObject::to_pod).collect()
}

pub(crate) fn pod_metrics(values: &[MetricValue]) -> PodMetrics {
    let metric = |value: &MetricValue| PodMetric {
        value_milli: value.value_milli,
        at: value.timestamp,
        window: SignedDuration::from_nanos(value.window_ns),
    };
    values
        .iter()
        .map(|value| (value.pod.clone(), metric(value)))
        .collect::<BTreeMap<_, _>>()
}
