//! Objects for tests, in the namespace `shop`.

use std::sync::Arc;

use jiff::Timestamp;
use model::{Labels, Selector};
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use vertical::recommender_state::Decision;
use vertical::refresh::StatusChange;
use view::{Controller, ObjectKey, Pod, Vpa};

/// The samples of all metrics as text, without comments.
pub(crate) fn samples(registry: &Registry) -> Vec<String> {
    let text = TextEncoder::new().encode_to_string(&registry.gather());
    let text = text.expect("text");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// A number of seconds after a fixed time.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

/// A running pod of the Deployment `app`, with one container `main` without requests, and one init
/// container.
pub(crate) fn pod(name: &str, app: &str) -> Pod {
    let pod = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "main"}], "initContainers": [{"name": "setup"}]},
        "status": {"phase": "Running"},
    });
    Pod::from_k8s(serde_json::from_value(pod).expect("a pod"), false)
}

pub(crate) fn deployment(name: &str, replicas: i32) -> Arc<Controller> {
    Arc::new(Controller {
        key: ObjectKey::new("shop", name),
        labels: Labels::default(),
        selector: Ok(Selector::match_labels([("app", name)])),
        owner: None,
        replicas: Some(replicas),
        min_ready: std::time::Duration::ZERO,
        template: view::PodTemplate::default(),
    })
}

/// A VPA object for the Deployment of its name, merged with more JSON.
pub(crate) fn vpa(name: &str, more: &Value) -> Vpa {
    let mut object = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
    });
    json_patch::merge(&mut object, more);
    Vpa {
        key: ObjectKey::new("shop", name),
        object: api::vpa::parse(object).expect("an autoscaler"),
    }
}

/// A decision about the VPA object of this name, merged with more JSON, with one pod.
pub(crate) fn decision(name: &str, more: &Value, status: Value) -> Decision {
    Decision {
        vpa: Arc::new(vpa(name, more)),
        status: serde_json::from_value(status).expect("a status"),
        pods: 1,
        unsupported: false,
        change: StatusChange::Decision,
    }
}

pub(crate) fn recommended(name: &str, containers: &[&str]) -> Decision {
    let containers = containers.iter().map(|container| {
        json!({"containerName": container, "target": {"cpu": "250m", "memory": "1Ki"}, "lowerBound": {"cpu": "25m"}, "upperBound": {"cpu": "1"}, "uncappedTarget": {"cpu": "30m"}})
    });
    let status =
        json!({"recommendation": {"containerRecommendations": containers.collect::<Vec<_>>()}});
    decision(name, &json!({"spec": {"targetRef": {"name": "d"}}}), status)
}
