//! Objects for tests, in the namespace `shop`.

use std::sync::Arc;

use api::checkpoint::{VerticalPodAutoscalerCheckpointSpec, VerticalPodAutoscalerCheckpointStatus};
use jiff::Timestamp;
use model::{ContainerRef, Labels, Selector};
use serde_json::{Value, json};
use view::{Checkpoint, Controller, ObjectKey, Pod, Vpa};

/// A number of seconds after a fixed time.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

pub(crate) fn container(pod: &str, container: &str) -> ContainerRef {
    let [namespace, pod, container] = ["shop", pod, container].map(str::to_owned);
    ContainerRef {
        namespace,
        pod,
        container,
    }
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

/// The checkpoint of a container, with upstream's name.
pub(crate) fn checkpoint(
    vpa: &str,
    container: &str,
    status: Option<VerticalPodAutoscalerCheckpointStatus>,
) -> Checkpoint {
    let name = format!("{vpa}-{container}");
    Checkpoint {
        uid: name.clone(),
        resource_version: "1".to_owned(),
        is_annotated: false,
        sizing_history: None,
        key: ObjectKey::new("shop", name),
        created: None,
        spec: VerticalPodAutoscalerCheckpointSpec {
            vpa_object_name: vpa.to_owned(),
            container_name: container.to_owned(),
        },
        status,
    }
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
