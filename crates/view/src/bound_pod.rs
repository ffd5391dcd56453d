//! A pod that is bound to a node, reduced to what counts for the load of its node.

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use model::Labels;

use crate::effective_resources::{Requirements, Resources};
use crate::table::ObjectKey;
use crate::workload_controller::Owner;

/// An unfinished pod on a node.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundPod {
    pub key: ObjectKey,
    /// Unique identifier; a pod recreated under the same name has another one.
    pub uid: String,
    pub node: String,
    pub labels: Labels,
    /// The owner reference with `controller: true`.
    pub owner: Option<Owner>,
    /// Transition time of the condition `PodScheduled`, else the creation time.
    pub bound_at: Option<Timestamp>,
    /// Init containers in their order, then containers.
    pub containers: Vec<BoundContainer>,
    /// Pod-level requests and limits (`spec.resources`).
    pub pod_level: Requirements,
    /// Overhead of its runtime class.
    pub overhead: Resources,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundContainer {
    pub name: String,
    pub kind: ContainerKind,
    pub resources: Requirements,
}

/// Kind of a container, by the time when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerKind {
    /// Ends before the containers start.
    Init,
    /// Init container with `restartPolicy: Always`.
    Sidecar,
    App,
}

impl BoundPod {
    pub fn from_k8s(pod: v1::Pod) -> Self {
        let (metadata, spec) = (pod.metadata, pod.spec.unwrap_or_default());
        let conditions = pod.status.and_then(|status| status.conditions);
        let bound_at = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == "PodScheduled" && condition.status == "True")
            .and_then(|condition| condition.last_transition_time)
            .or_else(|| metadata.creation_timestamp.clone());
        let of = |container: v1::Container, kind| BoundContainer {
            resources: Requirements::of(container.resources.as_ref()),
            name: container.name,
            kind,
        };
        let init = spec.init_containers.into_iter().flatten();
        let init = init.map(|container| {
            let is_sidecar = container.restart_policy.as_deref() == Some("Always");
            let kind = if is_sidecar {
                ContainerKind::Sidecar
            } else {
                ContainerKind::Init
            };
            of(container, kind)
        });
        let apps = spec.containers.into_iter();
        Self {
            key: ObjectKey::from(&metadata),
            uid: metadata.uid.unwrap_or_default(),
            node: spec.node_name.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default().into(),
            owner: Owner::controller(metadata.owner_references),
            bound_at: bound_at.map(|time| time.0),
            containers: init
                .chain(apps.map(|container| of(container, ContainerKind::App)))
                .collect(),
            pod_level: Requirements::of(spec.resources.as_ref()),
            overhead: Resources::of(spec.overhead.as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Cpu;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_counts_from_its_binding() {
        let mut object = json!({
            "metadata": {"namespace": "shop", "name": "web-1", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "nodeName": "n1",
                "resources": {"limits": {"cpu": "3"}},
                "initContainers": [{"name": "setup"}, {"name": "mesh", "restartPolicy": "Always"}],
                "containers": [{"name": "web", "resources": {"requests": {"cpu": "100m"}}}],
                "overhead": {"cpu": "10m"},
            },
            "status": {"conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:07Z"},
            ]},
        });
        let read = |object: &serde_json::Value| {
            BoundPod::from_k8s(serde_json::from_value(object.clone()).expect("a pod"))
        };
        let pod = read(&object);
        let kinds: Vec<_> = pod
            .containers
            .iter()
            .map(|container| (&*container.name, container.kind))
            .collect();
        let expected = [
            ("setup", ContainerKind::Init),
            ("mesh", ContainerKind::Sidecar),
            ("web", ContainerKind::App),
        ];
        assert_eq!(kinds, expected);
        let cpu = |millicores| Some(Cpu::from_millicores(millicores));
        assert_eq!(pod.containers[2].resources.requests.cpu, cpu(100));
        assert_eq!(
            (pod.pod_level.limits.cpu, pod.overhead.cpu),
            (cpu(3000), cpu(10))
        );
        assert_eq!((&*pod.node, &*pod.uid), ("n1", "u1"));
        let time = |text: &str| Some(text.parse().expect("a time"));
        assert_eq!(pod.bound_at, time("2026-01-01T00:00:07Z"));
        object["status"] = json!({});
        assert_eq!(read(&object).bound_at, time("2026-01-01T00:00:00Z"));
    }
}
