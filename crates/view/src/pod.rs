//! A pod, trimmed to what can change a decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use model::Labels;

use crate::owner::Owner;
use crate::placement::Placement;
use crate::resources::{Requirements, Resources, effective};
use crate::running::Running;
use crate::table::{Entry, ObjectKey};

/// A pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique identifier: a pod of the same name made later is another pod.
    pub uid: String,
    /// All labels.
    pub labels: Labels,
    /// Where the pod is in its life.
    pub phase: Phase,
    /// The controller that made it.
    pub owner: Option<Owner>,
    /// When the kubelet took the pod on.
    pub started_at: Option<Timestamp>,
    /// The containers that are sized: not init containers, not ephemeral ones.
    pub containers: Vec<Container>,
    /// Names of init containers; their usage is not a sample of any container.
    pub init_containers: Vec<String>,
    /// Those of its init containers that go on running beside the others (`restartPolicy: Always`).
    pub sidecars: Vec<Sidecar>,
    /// What it requests as a whole (`spec.resources`), where it does.
    pub requests: Option<Box<Resources>>,
    /// Where it may run and what it asks for beside; absent where nobody needs it.
    pub placement: Option<Arc<Placement>>,
    /// What it says while it runs; absent where nobody needs it.
    pub running: Option<Arc<Running>>,
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not started yet.
    Pending,
    /// At least one container runs, or will again.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, at least one badly.
    Failed,
    /// The node cannot be asked, or the phase is not known here.
    #[default]
    Unknown,
}

/// One container of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    /// Name, unique within the pod.
    pub name: String,
    /// Requests in effect.
    pub requests: Resources,
    /// Limits in effect.
    pub limits: Resources,
    /// What the kubelet says about it; none before it says anything.
    pub status: Option<ContainerStatus>,
}

/// An init container that goes on running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    /// Name, unique within the pod.
    pub name: String,
    /// What its specification requests.
    pub requests: Resources,
    /// What the kubelet says about it; none before it says anything.
    pub status: Option<ContainerStatus>,
}

/// What the kubelet says about a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStatus {
    /// How often it was restarted.
    pub restart_count: i32,
    /// What it does now.
    pub state: ContainerState,
    /// How it ended the time before.
    pub last_termination: Option<Termination>,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// Neither running nor ended: waits for an image, or for its back-off to pass.
    Waiting,
    /// Runs.
    Running,
    /// Ended.
    Terminated(Termination),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    /// The kubelet's word for it, such as `OOMKilled`.
    pub reason: String,
    /// When it began to run.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Pod {
    /// Keeps what can change a decision, and its placement where that is wanted.
    pub fn from_k8s(pod: v1::Pod, keeps_placement: bool) -> Self {
        let (metadata, spec, status) = (
            pod.metadata,
            pod.spec.unwrap_or_default(),
            pod.status.unwrap_or_default(),
        );
        let mut statuses: BTreeMap<String, v1::ContainerStatus> = status
            .container_statuses
            .into_iter()
            .flatten()
            .map(|status| (status.name.clone(), status))
            .collect();
        let mut init_statuses: BTreeMap<String, v1::ContainerStatus> = status
            .init_container_statuses
            .into_iter()
            .flatten()
            .map(|status| (status.name.clone(), status))
            .collect();
        let created_at = metadata.creation_timestamp.map(|time| time.0);
        let placement = keeps_placement.then(|| Arc::new(Placement::from_k8s(created_at, &spec)));
        Self {
            key: ObjectKey::new(
                metadata.namespace.unwrap_or_default(),
                metadata.name.unwrap_or_default(),
            ),
            uid: metadata.uid.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default().into(),
            phase: Phase::of(status.phase.as_deref()),
            owner: Owner::controller(metadata.owner_references),
            started_at: status.start_time.map(|time| time.0),
            containers: spec
                .containers
                .into_iter()
                .map(|container| {
                    let status = statuses.remove(&container.name);
                    Container::from_k8s(container, status)
                })
                .collect(),
            sidecars: spec
                .init_containers
                .iter()
                .flatten()
                .filter_map(|container| {
                    Sidecar::from_k8s(container, init_statuses.remove(&container.name))
                })
                .collect(),
            requests: spec
                .resources
                .and_then(|resources| resources.requests)
                .filter(|all| !all.is_empty())
                .map(|all| Box::new(Resources::of(Some(&all)))),
            init_containers: spec
                .init_containers
                .into_iter()
                .flatten()
                .map(|container| container.name)
                .collect(),
            placement,
            running: None,
        }
    }

    /// The same, with what it says while it runs.
    pub fn from_k8s_running(pod: v1::Pod, keeps_placement: bool) -> Self {
        let running = Some(Arc::new(Running::from_k8s(&pod)));
        Self {
            running,
            ..Self::from_k8s(pod, keeps_placement)
        }
    }

    /// What it asks for in all; without a placement, what its containers do.
    pub fn requirements(&self) -> Requirements {
        let asked = self.containers.iter().map(|container| Requirements {
            requests: container.requests,
            limits: container.limits,
        });
        let containers = asked.fold(Requirements::default(), Requirements::plus);
        self.placement
            .as_ref()
            .map_or(containers, |placement| placement.total(containers))
    }

    /// Whether it is bound to a node, has not ended and is not being deleted. False where what it
    /// says while it runs is not kept.
    pub fn is_live(&self) -> bool {
        let running = self.running.as_ref();
        !self.is_finished()
            && running.is_some_and(|running| running.node.is_some() && !running.is_terminating)
    }

    /// Whether all containers have ended for good.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }
}

impl Phase {
    pub(crate) fn of(text: Option<&str>) -> Self {
        match text {
            Some("Pending") => Self::Pending,
            Some("Running") => Self::Running,
            Some("Succeeded") => Self::Succeeded,
            Some("Failed") => Self::Failed,
            _ => Self::Unknown,
        }
    }
}

impl Container {
    fn from_k8s(container: v1::Container, status: Option<v1::ContainerStatus>) -> Self {
        let reported = status.as_ref().and_then(|status| status.resources.as_ref());
        let (requests, limits) = effective(reported, container.resources.as_ref());
        Self {
            name: container.name,
            requests,
            limits,
            status: status.map(ContainerStatus::from_k8s),
        }
    }
}

impl Sidecar {
    fn from_k8s(container: &v1::Container, status: Option<v1::ContainerStatus>) -> Option<Self> {
        let requests = container
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.as_ref());
        (container.restart_policy.as_deref() == Some("Always")).then(|| Self {
            name: container.name.clone(),
            requests: Resources::of(requests),
            status: status.map(ContainerStatus::from_k8s),
        })
    }
}

impl ContainerStatus {
    fn from_k8s(status: v1::ContainerStatus) -> Self {
        let state = status.state.unwrap_or_default();
        Self {
            restart_count: status.restart_count,
            state: match (state.terminated, state.running) {
                (Some(terminated), _) => {
                    ContainerState::Terminated(Termination::from_k8s(terminated))
                }
                (None, Some(_)) => ContainerState::Running,
                (None, None) => ContainerState::Waiting,
            },
            last_termination: status
                .last_state
                .and_then(|state| state.terminated)
                .map(Termination::from_k8s),
        }
    }
}

impl Termination {
    fn from_k8s(state: v1::ContainerStateTerminated) -> Self {
        Self {
            reason: state.reason.unwrap_or_default(),
            started_at: state.started_at.map(|time| time.0),
            finished_at: state.finished_at.map(|time| time.0),
        }
    }
}

impl Entry for Pod {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use model::{Cpu, Memory};
    use serde_json::{Value, json};

    use super::*;

    fn full_pod() -> Value {
        json!({
            "metadata": {
                "namespace": "shop", "name": "web-1", "uid": "u1", "resourceVersion": "7", "labels": {"app": "web"},
                "managedFields": [{"manager": "kubelet", "operation": "Update"}],
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Thing", "name": "aside", "uid": "u8"},
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u9", "controller": true},
                ],
            },
            "spec": {
                "initContainers": [{"name": "setup"}],
                "containers": [
                    {"name": "web", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}},
                    {"name": "proxy", "resources": {"limits": {"memory": "32Mi"}}},
                ],
            },
            "status": {
                "phase": "Running",
                "startTime": "2026-01-01T00:00:00Z",
                "containerStatuses": [{
                    "name": "web", "restartCount": 2, "ready": true, "image": "web", "imageID": "",
                    "state": {"running": {"startedAt": "2026-01-01T01:00:00Z"}},
                    "lastState": {"terminated": {
                        "exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:59:00Z",
                    }},
                    "resources": {"requests": {"cpu": "200m", "memory": "128Mi"}},
                }],
            },
        })
    }

    fn from_k8s(pod: Value) -> Pod {
        Pod::from_k8s(serde_json::from_value(pod).expect("a pod"), false)
    }

    fn check(change: impl FnOnce(&mut Value), equal: bool) {
        let mut changed = full_pod();
        change(&mut changed);
        assert_eq!(
            from_k8s(full_pod()) == from_k8s(changed.clone()),
            equal,
            "{changed}"
        );
    }

    #[test]
    fn what_decisions_read_is_kept() {
        let pod = from_k8s(full_pod());
        assert_eq!(pod.key, ObjectKey::new("shop", "web-1"));
        assert_eq!(pod.labels, Labels::from_iter([("app", "web")]));
        assert_eq!(pod.phase, Phase::Running);
        assert_eq!(pod.owner.expect("it has a controller").name, "web");
        assert_eq!(pod.init_containers, ["setup"]);
        assert_eq!((pod.sidecars, pod.requests), (Vec::new(), None));
        let [web, proxy] = pod.containers.as_slice() else {
            panic!("two containers")
        };
        assert_eq!(
            web.requests,
            Resources {
                cpu: Some(Cpu::from_millicores(200)),
                memory: Some(Memory::from_bytes(128 << 20))
            }
        );
        assert_eq!(
            web.status.as_ref().expect("reported").state,
            ContainerState::Running
        );
        assert_eq!(
            proxy.limits,
            Resources {
                cpu: None,
                memory: Some(Memory::from_bytes(32 << 20))
            }
        );
        assert_eq!(proxy.status, None);
    }

    #[test]
    fn what_is_requested_beside_the_containers_is_kept() {
        let mut pod = full_pod();
        pod["spec"]["resources"] = json!({"requests": {"memory": "1Gi"}});
        pod["spec"]["initContainers"] = json!([
            {"name": "setup", "resources": {"requests": {"cpu": "1"}}},
            {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"cpu": "10m"}}},
        ]);
        pod["status"]["initContainerStatuses"] = json!([{
            "name": "mesh", "restartCount": 1, "ready": true, "image": "mesh", "imageID": "",
            "state": {"running": {}},
        }]);
        let pod = from_k8s(pod);
        assert_eq!(pod.init_containers, ["setup", "mesh"]);
        let requests = Resources {
            cpu: Some(Cpu::from_millicores(10)),
            memory: None,
        };
        let status = ContainerStatus {
            restart_count: 1,
            state: ContainerState::Running,
            last_termination: None,
        };
        assert_eq!(
            pod.sidecars,
            [Sidecar {
                name: "mesh".to_owned(),
                requests,
                status: Some(status)
            }]
        );
        assert_eq!(
            pod.requests.as_deref(),
            Some(&Resources {
                cpu: None,
                memory: Some(Memory::from_bytes(1 << 30))
            })
        );
    }

    #[test]
    fn where_a_pod_may_run_is_kept_where_that_is_wanted() {
        let mut pod = full_pod();
        pod["spec"]["overhead"] = json!({"cpu": "10m"});
        pod["spec"]["nodeSelector"] = json!({"pool": "big"});
        assert_eq!(from_k8s(pod.clone()).placement, None);
        assert_eq!(
            from_k8s(pod.clone()).requirements().requests.cpu,
            Some(Cpu::from_millicores(200))
        );
        let pod = Pod::from_k8s(serde_json::from_value(pod).expect("a pod"), true);
        assert_eq!(
            pod.requirements().requests.cpu,
            Some(Cpu::from_millicores(210))
        );
        let placement = pod.placement.expect("kept");
        assert_eq!(placement.constraints.selector.get("pool"), Some("big"));
    }

    #[test]
    fn only_what_decisions_read_makes_a_difference() {
        check(|pod| pod["metadata"]["resourceVersion"] = json!("8"), true);
        check(|pod| pod["metadata"]["managedFields"] = json!([]), true);
        check(
            |pod| pod["metadata"]["annotations"] = json!({"a": "b"}),
            true,
        );
        check(
            |pod| pod["status"]["containerStatuses"][0]["ready"] = json!(false),
            true,
        );
        check(|pod| pod["metadata"]["labels"]["app"] = json!("api"), false);
        check(|pod| pod["status"]["phase"] = json!("Failed"), false);
        check(
            |pod| pod["status"]["containerStatuses"][0]["restartCount"] = json!(3),
            false,
        );
    }
}
