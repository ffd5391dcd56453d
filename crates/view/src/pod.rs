//! A pod, reduced to the fields that can change a decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use model::Labels;

use crate::effective_resources::{Requirements, Resources, effective, of_pod};
use crate::memory_cgroup::MemoryCgroup;
use crate::pod_placement::PodPlacement;
use crate::pod_runtime::Running;
use crate::table::{Entry, ObjectKey};
use crate::workload_controller::Owner;

#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    pub key: ObjectKey,
    /// Unique identifier; a pod recreated under the same name has another one.
    pub uid: String,
    pub labels: Labels,
    pub phase: Phase,
    /// The owner reference with `controller: true`.
    pub owner: Option<Owner>,
    /// Time at which the kubelet accepted the pod (`status.startTime`).
    pub started_at: Option<Timestamp>,
    /// The app containers, which are sized; neither init nor ephemeral containers.
    pub containers: Vec<Container>,
    /// Names of init containers, whose usage samples are ignored.
    pub init_containers: Vec<String>,
    /// Native sidecars: init containers with `restartPolicy: Always`.
    pub sidecars: Vec<Container>,
    /// Requests and limits of the pod as a whole (`spec.resources`) in effect, if any.
    pub resources: Option<Box<Requirements>>,
    pub memory_cgroup: MemoryCgroup,
    /// Scheduling constraints; `None` if the program does not watch them.
    pub placement: Option<Arc<PodPlacement>>,
    /// Runtime details; `None` if the program does not watch them.
    pub running: Option<Arc<Running>>,
    /// Seconds from its creation until the condition Ready became True; `None` while it is not.
    pub ready_after_seconds: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// No container has started yet.
    Pending,
    /// At least one container runs or restarts.
    Running,
    /// All containers terminated successfully.
    Succeeded,
    /// All containers terminated, at least one in failure.
    Failed,
    /// The node is unreachable, or the phase is unknown to this code.
    #[default]
    Unknown,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    pub name: String,
    /// Requests in effect.
    pub requests: Resources,
    /// Limits in effect.
    pub limits: Resources,
    /// Status by the kubelet; `None` before its first report.
    pub status: Option<ContainerStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStatus {
    pub restart_count: i32,
    pub state: ContainerState,
    pub last_termination: Option<Termination>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// Waiting for its image or for the end of a restart back-off.
    Waiting,
    Running,
    Terminated(Termination),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    /// Reason, such as `OOMKilled`.
    pub reason: String,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

impl Pod {
    /// Converts a pod. `keeps_placement` fills [`Pod::placement`].
    pub fn from_k8s(pod: v1::Pod, keeps_placement: bool) -> Self {
        let (metadata, spec, status) = (
            pod.metadata,
            pod.spec.unwrap_or_default(),
            pod.status.unwrap_or_default(),
        );
        let resources = of_pod(metadata.generation, &spec, &status);
        let by_name = |statuses: Option<Vec<v1::ContainerStatus>>| {
            let statuses = statuses.into_iter().flatten();
            let named = statuses.map(|status| (status.name.clone(), status));
            named.collect::<BTreeMap<_, _>>()
        };
        let mut statuses = by_name(status.container_statuses);
        let mut init_statuses = by_name(status.init_container_statuses);
        let created_at = metadata.creation_timestamp.map(|time| time.0);
        let ready_at = ready_at(status.conditions.as_deref());
        let placement =
            keeps_placement.then(|| Arc::new(PodPlacement::from_k8s(created_at, &spec)));
        let memory_cgroup = MemoryCgroup::from_k8s(&spec, status.conditions.as_deref());
        let containers = spec.containers.iter();
        let containers = containers
            .map(|container| Container::from_k8s(container, statuses.remove(&container.name)));
        let init_containers = spec.init_containers.iter().flatten();
        let sidecars = init_containers
            .clone()
            .filter(|container| container.restart_policy.as_deref() == Some("Always"))
            .map(|container| Container::from_k8s(container, init_statuses.remove(&container.name)));
        Self {
            key: ObjectKey::of(metadata.namespace, metadata.name),
            uid: metadata.uid.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default().into(),
            phase: Phase::of(status.phase.as_deref()),
            owner: Owner::controller(metadata.owner_references),
            started_at: status.start_time.map(|time| time.0),
            containers: containers.collect(),
            sidecars: sidecars.collect(),
            resources: resources.map(|all| Box::new(Requirements::of(Some(&all)))),
            init_containers: init_containers.map(|it| it.name.clone()).collect(),
            memory_cgroup,
            placement,
            running: None,
            ready_after_seconds: created_at
                .zip(ready_at)
                .map(|(created, ready)| ready.duration_since(created).as_secs()),
        }
    }

    /// Converts a pod as [`Pod::from_k8s`] does and fills [`Pod::running`].
    pub fn from_k8s_running(pod: v1::Pod, keeps_placement: bool) -> Self {
        let metadata = pod.metadata;
        let (spec, status) = (pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
        let running = Some(Arc::new(Running::from_k8s(&metadata, &spec, &status)));
        let pod = v1::Pod {
            metadata,
            spec: Some(spec),
            status: Some(status),
        };
        Self {
            running,
            ..Self::from_k8s(pod, keeps_placement)
        }
    }

    /// Requests and limits of the whole pod; without a placement, the sum over its app containers.
    pub fn requirements(&self) -> Requirements {
        self.requirements_of(|container| Requirements {
            requests: container.requests,
            limits: container.limits,
        })
    }

    /// The same, with other requests and limits of the app containers.
    pub fn requirements_of(&self, asked: impl Fn(&Container) -> Requirements) -> Requirements {
        let asked = self.containers.iter().map(asked);
        let containers = asked.fold(Requirements::default(), Requirements::plus);
        let of_whole = self.resources.as_deref().copied().unwrap_or_default();
        match &self.placement {
            Some(placement) => placement.total(containers, of_whole),
            None => of_whole.or(containers),
        }
    }

    /// Whether it is on a node, not finished and not terminating. False without [`Pod::running`].
    pub fn is_live(&self) -> bool {
        let running = self.running.as_ref();
        !self.is_finished()
            && running.is_some_and(|running| running.node.is_some() && !running.is_terminating)
    }

    pub fn is_finished(&self) -> bool {
        self.phase.is_finished()
    }
}

/// Time at which the condition Ready became True, if it is.
fn ready_at(conditions: Option<&[v1::PodCondition]>) -> Option<Timestamp> {
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|condition| condition.type_ == "Ready")?;
    let since = ready.last_transition_time.as_ref().map(|time| time.0);
    since.filter(|_| ready.status == "True")
}

impl Phase {
    /// Whether the pod will never run again.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

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
    fn from_k8s(container: &v1::Container, status: Option<v1::ContainerStatus>) -> Self {
        let resources = effective(status.as_ref(), container);
        Self {
            name: container.name.clone(),
            requests: resources.requests,
            limits: resources.limits,
            status: status.map(ContainerStatus::from_k8s),
        }
    }
}

impl ContainerStatus {
    /// Whether a container runs, or is not yet known not to.
    pub fn is_running(status: Option<&Self>) -> bool {
        status.is_none_or(|status| status.state == ContainerState::Running)
    }

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
    /// Whether the kernel killed the container since it had too little memory.
    pub(crate) fn is_oom_kill(&self) -> bool {
        self.reason == "OOMKilled"
    }

    fn from_k8s(state: v1::ContainerStateTerminated) -> Self {
        Self {
            reason: state.reason.unwrap_or_default(),
            started_at: state.started_at.map(|time| time.0),
            finished_at: state.finished_at.map(|time| time.0),
        }
    }
}

/// A pod that has not ended, reduced to what matches selectors and tells which pods work.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledPod {
    pub key: ObjectKey,
    pub labels: Labels,
    pub phase: Phase,
    pub is_terminating: bool,
}

impl LabelledPod {
    pub fn from_k8s(pod: v1::Pod) -> Self {
        Self {
            key: ObjectKey::from(&pod.metadata),
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            labels: pod.metadata.labels.unwrap_or_default().into(),
            phase: Phase::of(pod.status.and_then(|status| status.phase).as_deref()),
        }
    }
}

impl Entry for Pod {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn inherited(&self, predecessor: &Self) -> Option<Self> {
        if self.uid != predecessor.uid {
            return None;
        }
        let memory_cgroup = MemoryCgroup::after(predecessor, self);
        (memory_cgroup != self.memory_cgroup).then(|| Self {
            memory_cgroup,
            ..self.clone()
        })
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

    fn resources(millicores: Option<i64>, bytes: Option<i64>) -> Resources {
        Resources {
            cpu: millicores.map(Cpu::from_millicores),
            memory: bytes.map(Memory::from_bytes),
        }
    }

    fn check(change: impl FnOnce(&mut Value), equal: bool) {
        let mut changed = full_pod();
        change(&mut changed);
        let is_equal = from_k8s(full_pod()) == from_k8s(changed.clone());
        assert_eq!(is_equal, equal, "{changed}");
    }

    #[test]
    fn fields_that_decisions_read_are_kept() {
        let pod = from_k8s(full_pod());
        assert_eq!(pod.key, ObjectKey::new("shop", "web-1"));
        assert_eq!(pod.labels, Labels::from_iter([("app", "web")]));
        assert_eq!(pod.phase, Phase::Running);
        assert_eq!(pod.owner.expect("it has a controller").name, "web");
        assert_eq!(pod.init_containers, ["setup"]);
        assert_eq!((pod.sidecars, pod.resources), (Vec::new(), None));
        let [web, proxy] = pod.containers.as_slice() else {
            panic!("two containers")
        };
        assert_eq!(web.requests, resources(Some(200), Some(128 << 20)));
        let status = web.status.as_ref().expect("reported");
        assert_eq!(status.state, ContainerState::Running);
        assert_eq!(proxy.limits, resources(None, Some(32 << 20)));
        assert_eq!(proxy.status, None);
    }

    #[test]
    fn sidecar_and_pod_level_requests_are_kept() {
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
        let status = ContainerStatus {
            restart_count: 1,
            state: ContainerState::Running,
            last_termination: None,
        };
        let mesh = Container {
            name: "mesh".to_owned(),
            requests: resources(Some(10), None),
            limits: Resources::default(),
            status: Some(status),
        };
        assert_eq!(pod.sidecars, [mesh]);
        assert_eq!(
            pod.resources.map(|all| all.requests),
            Some(resources(None, Some(1 << 30)))
        );
    }

    #[test]
    fn the_time_until_it_was_ready_is_kept_while_it_is_ready() {
        for (status, since, expected) in [
            ("True", json!("2026-01-01T00:01:35Z"), Some(95)),
            ("False", json!("2026-01-01T00:01:35Z"), None),
            ("True", json!(null), None),
        ] {
            let mut pod = full_pod();
            pod["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
            pod["status"]["conditions"] = json!([
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
                {"type": "Ready", "status": status, "lastTransitionTime": since},
            ]);
            assert_eq!(from_k8s(pod).ready_after_seconds, expected, "{status}");
        }
        assert_eq!(from_k8s(full_pod()).ready_after_seconds, None);
    }

    #[test]
    fn placement_is_kept_on_demand() {
        let mut pod = full_pod();
        pod["spec"]["overhead"] = json!({"cpu": "10m"});
        pod["spec"]["nodeSelector"] = json!({"pool": "big"});
        assert_eq!(from_k8s(pod.clone()).placement, None);
        let cpu = |pod: &Pod| pod.requirements().requests.cpu.map(Cpu::millicores);
        assert_eq!(cpu(&from_k8s(pod.clone())), Some(200));
        let pod = Pod::from_k8s(serde_json::from_value(pod).expect("a pod"), true);
        assert_eq!(cpu(&pod), Some(210));
        let placement = pod.placement.expect("kept");
        assert_eq!(placement.constraints.selector.get("pool"), Some("big"));
    }

    #[test]
    fn only_fields_that_decisions_read_make_a_difference() {
        let status = |pod: &mut Value, field: &str, value: Value| {
            pod["status"]["containerStatuses"][0][field] = value;
        };
        check(|pod| pod["metadata"]["resourceVersion"] = json!("8"), true);
        check(|pod| pod["metadata"]["managedFields"] = json!([]), true);
        check(
            |pod| pod["metadata"]["annotations"] = json!({"a": "b"}),
            true,
        );
        check(|pod| status(pod, "ready", json!(false)), true);
        check(|pod| pod["metadata"]["labels"]["app"] = json!("api"), false);
        check(|pod| pod["status"]["phase"] = json!("Failed"), false);
        check(|pod| status(pod, "restartCount", json!(3)), false);
    }
}
