//! Kubernetes objects as recorded, and values of pods.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use testing::hpa::{
    Container, Phase, Pod, PodMetric, PodMetrics, ReadyCondition, ReadyStatus, Requests,
};
use testing::vectors::{items, or_default};

#[derive(Deserialize)]
pub(crate) struct MetricValue {
    pod: String,
    timestamp: Timestamp,
    value_milli: i64,
    window_ns: i64,
}

pub(crate) fn pods(objects: &[Value]) -> Vec<Pod> {
    objects.iter().map(pod).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn pod(object: &Value) -> Pod {
    let [metadata, spec, status] = ["metadata", "spec", "status"].map(|part| &object[part]);
    let requests = |of: &Value| or_default(&of["resources"]["requests"]);
    let is_sidecar = |init: &&Value| init["restartPolicy"] == "Always";
    let sidecars = items(&spec["initContainers"]).filter(is_sidecar);
    let containers = items(&spec["containers"]).chain(sidecars);
    let containers = containers.map(|container| Container {
        name: text(&container["name"]),
        requests: requests(container),
    });
    let mut conditions = items(&status["conditions"]);
    Pod {
        name: text(&metadata["name"]),
        deleted: !metadata["deletionTimestamp"].is_null(),
        phase: match text(&status["phase"]).as_str() {
            "Pending" => Phase::Pending,
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            "Unknown" => Phase::Unknown,
            other => panic!("phase {other}"),
        },
        ready: conditions.find(|it| it["type"] == "Ready").map(ready),
        started: or_default(&status["startTime"]),
        requests: Requests {
            pod: requests(spec),
            containers: containers.collect(),
        },
    }
}

fn ready(condition: &Value) -> ReadyCondition {
    let status = match text(&condition["status"]).as_str() {
        "True" => ReadyStatus::True,
        "False" => ReadyStatus::False,
        "Unknown" => ReadyStatus::Unknown,
        other => panic!("status {other}"),
    };
    let since: Option<Timestamp> = or_default(&condition["lastTransitionTime"]);
    ReadyCondition {
        status,
        since: since.expect("a time"),
    }
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
