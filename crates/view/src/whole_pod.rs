//! A pod as one container with the resources of the pod: what a VPA object with a `podPolicy` sizes.

use std::sync::Arc;

use model::WHOLE_POD;

use crate::effective_resources::Requirements;
use crate::memory_cgroup::MemoryCgroup;
use crate::pod::{Container, ContainerState, ContainerStatus, Pod};
use crate::pod_placement::PodPlacement;
use crate::pod_runtime::Running;
use crate::vpa::Vpa;

impl Vpa {
    /// A pod with the containers that this object sizes.
    pub fn as_sized(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        if self.object.spec.sizes_whole_pods() {
            Arc::new(pod.as_whole())
        } else {
            Arc::clone(pod)
        }
    }
}

impl Pod {
    /// Whether an OOM kill of a container shows that the pod as a whole needs more memory: the container has
    /// no smaller limit of its own.
    pub fn is_kill_of_whole(&self, container: &str) -> bool {
        let containers = self.containers.iter().map(|it| (&it.name, it.limits));
        let sidecars = self.sidecars.iter().map(|it| (&it.name, it.limits));
        let mut all = containers.chain(sidecars);
        let own = all.find(|(name, _)| *name == container);
        let own = own.and_then(|(_, limits)| limits.memory);
        let of_pod = self.resources.as_ref().and_then(|it| it.limits.memory);
        own.is_none_or(|own| of_pod.is_some_and(|of_pod| own >= of_pod))
    }

    /// The pod with one container, [`WHOLE_POD`]: its resources are those of `spec.resources`, its requests else
    /// the sums over the containers, and its status is that of the container that ended last, else of the
    /// first.
    fn as_whole(&self) -> Self {
        let of_pod = self.resources.as_deref().copied().unwrap_or_default();
        let containers = self
            .containers
            .iter()
            .map(|it| (&it.name, it.requests, &it.status));
        let sidecars = self
            .sidecars
            .iter()
            .map(|it| (&it.name, it.requests, &it.status));
        let all = containers.chain(sidecars);
        let sums = all.clone().map(|(_, requests, _)| Requirements {
            requests,
            ..Requirements::default()
        });
        let of_pod = of_pod.or(sums.fold(Requirements::default(), Requirements::plus));
        let statuses = all.filter_map(|(name, _, status)| Some((name, status.as_ref()?)));
        // Of several the first one is the largest.
        let last = statuses.rev().max_by_key(|(_, status)| status.ended_at());
        let status = last.map(|(name, status)| {
            let mut status = status.clone();
            let last = status.last_termination;
            status.last_termination = last.filter(|_| self.is_kill_of_whole(name));
            status
        });
        let without_containers = |placement: &Arc<PodPlacement>| {
            Arc::new(PodPlacement {
                sidecars: Requirements::default(),
                start: Requirements::default(),
                ..PodPlacement::clone(placement)
            })
        };
        Self {
            containers: vec![Container {
                name: WHOLE_POD.to_owned(),
                requests: of_pod.requests,
                limits: of_pod.limits,
                status,
            }],
            resources: None,
            init_containers: Vec::new(),
            sidecars: Vec::new(),
            memory_cgroup: MemoryCgroup {
                is_sum: of_pod.limits.memory.is_some(),
                ..MemoryCgroup::default()
            },
            placement: self.placement.as_ref().map(without_containers),
            running: self
                .running
                .as_ref()
                .map(|it| Arc::new(Running::as_whole(it))),
            ..self.clone()
        }
    }
}

impl ContainerStatus {
    /// The end of its last run.
    fn ended_at(&self) -> Option<jiff::Timestamp> {
        let state = match &self.state {
            ContainerState::Terminated(end) => Some(end),
            ContainerState::Waiting | ContainerState::Running => None,
        };
        let ends = state.into_iter().chain(&self.last_termination);
        ends.filter_map(|end| end.finished_at).max()
    }
}

impl Running {
    fn as_whole(running: &Arc<Self>) -> Self {
        let containers = running.containers.iter().chain(&running.init_containers);
        let restarts_for = containers.flat_map(|it| it.restarts_for.iter().cloned());
        let mut whole = running.whole.as_deref().cloned().unwrap_or_default();
        whole.restarts_for = restarts_for.collect();
        Self {
            containers: vec![whole],
            init_containers: Vec::new(),
            whole_of: Some(Arc::clone(running)),
            ..Self::clone(running)
        }
    }

    /// The pod with its containers, also where this is the pod as one container.
    pub fn parts(&self) -> &Self {
        self.whole_of.as_deref().unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use model::Cpu;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_whole_pod_has_the_resources_of_the_pod_and_the_last_end() {
        let killed = |second: u32| json!({"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": format!("2026-01-01T00:00:0{second}Z")}});
        let status = |name: &str, restarts: i32, last: serde_json::Value| {
            json!({
                "name": name, "restartCount": restarts, "ready": true, "image": "a", "imageID": "",
                "state": {"running": {}}, "lastState": last,
            })
        };
        let pod = json!({
            "metadata": {"name": "web"},
            "spec": {
                "resources": {"requests": {"cpu": "1"}},
                "containers": [{"name": "app"}, {"name": "first"}, {"name": "last"}],
                "initContainers": [{"name": "mesh", "restartPolicy": "Always"}],
            },
            "status": {
                "resources": {"requests": {"cpu": "2"}},
                "conditions": [{"type": "PodResizeInProgress", "status": "True"}],
                "containerStatuses": [
                    status("app", 0, json!({})), status("first", 1, killed(3)), status("last", 2, killed(5)),
                ],
            },
        });
        let pod = Pod::from_k8s_running(serde_json::from_value(pod).expect("a pod"), true);
        let whole = pod.as_whole();
        let [container] = &whole.containers[..] else {
            panic!("{whole:?}");
        };
        assert_eq!(container.requests.cpu, Some(Cpu::from_millicores(2000)));
        let restarts = container.status.as_ref().map(|it| it.restart_count);
        assert_eq!((&*container.name, restarts), (WHOLE_POD, Some(2)));
        assert_eq!((whole.sidecars.len(), whole.uid), (0, pod.uid));
        let running = whole.running.expect("details");
        let requests = running.containers[0].requests.as_ref();
        let cpu = requests.and_then(|list| list.get(&"cpu".into())).cloned();
        assert_eq!(cpu, "1".parse().ok(), "as specified");
        assert_eq!(running.parts().containers.len(), 3);
    }
}
