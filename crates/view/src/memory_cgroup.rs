//! The memory limit of a pod's cgroup, and resizes that did not reach it.
//!
//! The kubelet sets it where each container has a memory limit: to their sum. It writes it when it
//! starts the pod, and when it resizes a container that runs, also if the resize restarts it. A
//! resize of a stopped container changes that container's own cgroup at its next start, but not the pod's: the kernel
//! goes on killing at the old sum (kubelets before 1.37). With a memory limit for the pod as a whole, resizes of
//! containers do not concern the pod's cgroup.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use model::{Memory, Quantity};

use crate::pod::{Container, ContainerState, Pod, Termination};

/// Usual time from the start of a resize to the new limit of the cgroup. `OOM_RESIZE_EFFECT_WITHIN` is the longest:
/// a kill in between counts for a larger target, which is the safe side.
const RESIZE_SECONDS: i64 = 3;
/// Condition of a pod while the kubelet is at a resize.
const IN_PROGRESS: &str = "PodResizeInProgress";
/// Policy of a resize.
const RESTARTS: &str = "RestartContainer";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryCgroup {
    /// Whether it is the sum of the containers' memory limits; else it is independent of them.
    pub is_sum: bool,
    /// Start of the resize that the kubelet is still at: until its end a container that seems to run
    /// may have stopped.
    pub resizing_since: Option<Timestamp>,
    /// The last resize of memory requests, if its start is known.
    pub last_resize: Option<Arc<LastResize>>,
    /// Containers whose limits it does not have yet, with the memory that it has for them. Empty
    /// before a second state of the pod is observed.
    pub outdated: Vec<MemoryInEffect>,
    /// Names of the containers that a resize of memory restarts.
    pub restarted: Box<[String]>,
}

/// The memory of a container that its pod's cgroup still has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryInEffect {
    pub container: String,
    /// Memory request from before the resize; `None` if there was none.
    pub request: Option<Memory>,
    /// Memory limit from before the resize, the one in effect.
    pub limit: Memory,
}

/// A resize, and the memory requests before it.
#[derive(Debug, PartialEq, Eq)]
pub struct LastResize {
    began: Timestamp,
    /// 0 without a request.
    requests: Vec<(String, Memory)>,
}

impl MemoryCgroup {
    pub(crate) fn from_k8s(spec: &v1::PodSpec, conditions: Option<&[v1::PodCondition]>) -> Self {
        let limit = |resources: Option<&v1::ResourceRequirements>| {
            let text = &resources?.limits.as_ref()?.get("memory")?.0;
            text.parse::<Quantity>().ok().filter(|it| !it.is_zero())
        };
        let init = spec.init_containers.iter().flatten();
        let mut containers = spec.containers.iter().chain(init);
        let is_sum = limit(spec.resources.as_ref()).is_none()
            && containers.all(|container| limit(container.resources.as_ref()).is_some());
        let restarts = |container: &&v1::Container| {
            let mut policies = container.resize_policy.iter().flatten();
            policies.any(|it| it.resource_name == "memory" && it.restart_policy == RESTARTS)
        };
        let restarted = spec.containers.iter().filter(restarts);
        let mut conditions = conditions.into_iter().flatten();
        let resizing = conditions.find(|it| it.type_ == IN_PROGRESS && it.status == "True");
        Self {
            is_sum,
            resizing_since: resizing.and_then(|it| Some(it.last_transition_time.as_ref()?.0)),
            last_resize: None,
            outdated: Vec::new(),
            restarted: restarted.map(|it| it.name.clone()).collect(),
        }
    }

    /// The memory of a container that is in effect, if it differs from that of its status.
    pub fn in_effect(&self, container: &str) -> Option<&MemoryInEffect> {
        self.outdated.iter().find(|it| it.container == container)
    }

    /// The state after `old`, the pod's previous one. A resize of a running container brings all
    /// limits into effect, also if it ends the run; not one between two runs, or of a stopped one.
    pub(crate) fn after(old: &Pod, new: &Pod) -> Self {
        let is_sum = new.memory_cgroup.is_sum;
        let pairs = new.containers.iter().filter_map(|after| {
            let before = old.containers.iter().find(|it| it.name == after.name)?;
            Some((before, after))
        });
        let restarted = &new.memory_cgroup.restarted;
        let resizing_since = new.memory_cgroup.resizing_since;
        let is_in_effect = |(before, after): (&Container, &Container)| {
            let is_resized = before.limits.memory != after.limits.memory;
            let was_resizing = old.memory_cgroup.resizing_since.is_some();
            let has_ended = resizing_since.is_none() && (is_resized || was_resizing);
            let is_restarted = restarted.contains(&after.name) && !was_killed(after);
            has_ended && same_run(before, after) || is_resized && is_restarted
        };
        let outdated = if !is_sum || pairs.clone().any(is_in_effect) {
            Vec::new()
        } else {
            let outdated = |(before, after): (&Container, &Container)| {
                let known = old.memory_cgroup.in_effect(&before.name).cloned();
                let had = known.or_else(|| MemoryInEffect::of(before))?;
                (after.limits.memory > Some(had.limit)).then_some(had)
            };
            pairs.filter_map(outdated).collect()
        };
        Self {
            is_sum,
            resizing_since,
            last_resize: LastResize::after(old, new),
            outdated,
            restarted: restarted.clone(),
        }
    }

    /// The request of a container before the last resize, if an end of the container came first: the
    /// kubelet notices an end up to a second later, and meanwhile resizes what has ended.
    pub(crate) fn request_before_resize(
        &self,
        container: &str,
        end: &Termination,
    ) -> Option<Memory> {
        let resize = self.last_resize.as_ref().filter(|it| it.follows(end))?;
        let mut requests = resize.requests.iter();
        Some(requests.find(|(name, _)| name == container)?.1)
    }
}

impl LastResize {
    /// Whether a run ended before the resize, or while the kubelet was at it.
    fn follows(&self, run: &Termination) -> bool {
        let seconds = |from: Timestamp, to: Timestamp| to.as_second() - from.as_second();
        let is_older = run.started_at.is_some_and(|start| start < self.began);
        let most = if is_older { RESIZE_SECONDS } else { 0 };
        run.finished_at
            .is_some_and(|end| seconds(self.began, end) <= most)
    }

    /// The last resize in the state after `old`.
    fn after(old: &Pod, new: &Pod) -> Option<Arc<Self>> {
        let known = &old.memory_cgroup;
        let resized = old.containers.iter().filter(|before| {
            let mut after = new.containers.iter().filter(|it| it.name == before.name);
            after.any(|after| after.requests.memory != before.requests.memory)
        });
        let request = |before: &Container| match known.in_effect(&before.name) {
            Some(in_effect) => in_effect.request,
            None => before.requests.memory,
        };
        let requests = resized.map(|it| (it.name.clone(), request(it).unwrap_or_default()));
        let requests: Vec<_> = requests.collect();
        if requests.is_empty() {
            return known.last_resize.clone();
        }
        let began = new.memory_cgroup.resizing_since.or(known.resizing_since)?;
        Some(Arc::new(Self { began, requests }))
    }
}

impl MemoryInEffect {
    fn of(container: &Container) -> Option<Self> {
        Some(Self {
            container: container.name.clone(),
            request: container.requests.memory,
            limit: container.limits.memory?,
        })
    }
}

/// Whether a container ran in both states, without a restart in between.
fn same_run(before: &Container, after: &Container) -> bool {
    let (Some(before), Some(after)) = (&before.status, &after.status) else {
        return false;
    };
    before.state == ContainerState::Running
        && after.state == ContainerState::Running
        && before.restart_count == after.restart_count
}

/// Whether the last run of a container ended by an OOM kill, not by a resize that restarts it.
fn was_killed(container: &Container) -> bool {
    let end = match container.status.as_ref().map(|status| &status.state) {
        Some(ContainerState::Terminated(end)) => Some(end),
        _ => container
            .status
            .as_ref()
            .and_then(|status| status.last_termination.as_ref()),
    };
    end.is_some_and(Termination::is_oom_kill)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::Table;
    use crate::oom_kill::oom_kills;

    const MIB: i64 = 1 << 20;

    /// A pod of one container with this limit in MiB, in its status too, in its n-th run.
    fn pod(mib: i64, restarts: i32, is_running: bool) -> Value {
        let resources = json!({"requests": {"memory": format!("{mib}Mi")}, "limits": {"memory": format!("{mib}Mi")}});
        let end = |run: i32| {
            let second = 10 * run;
            json!({"terminated": {"exitCode": 137, "reason": "OOMKilled",
                "startedAt": format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60),
                "finishedAt": format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60 + 5)}})
        };
        let state = if is_running {
            json!({"running": {}})
        } else {
            end(restarts + 1)
        };
        let last = (restarts > 0).then(|| end(restarts));
        json!({
            "metadata": {"namespace": "shop", "name": "web-0", "uid": "u"},
            "spec": {"containers": [{"name": "app", "resources": resources}]},
            "status": {"phase": "Running", "containerStatuses": [{
                "name": "app", "ready": is_running, "image": "", "imageID": "", "resources": resources,
                "restartCount": restarts, "state": state, "lastState": last.unwrap_or_default(),
            }]},
        })
    }

    fn parse(pod: Value) -> Pod {
        Pod::from_k8s(serde_json::from_value(pod).expect("a pod"), false)
    }

    /// The limit in effect in MiB after these states: MiB, restarts, whether it runs.
    fn check(states: &[(i64, i32, bool)], expected: i64) {
        let mut table = Table::default();
        for (mib, restarts, is_running) in states {
            table.apply(Arc::new(parse(pod(*mib, *restarts, *is_running))));
        }
        let last = table.iter().next().expect("a pod");
        let limit = match last.memory_cgroup.in_effect("app") {
            Some(in_effect) => in_effect.limit,
            None => last.containers[0].limits.memory.expect("a limit"),
        };
        assert_eq!(limit.bytes() / MIB, expected, "{states:?}");
    }

    #[test]
    fn only_a_resize_of_a_running_container_reaches_the_pod() {
        check(&[(64, 0, true), (128, 0, true)], 128);
        check(&[(64, 0, true), (64, 0, false), (128, 0, false)], 64);
        check(&[(64, 0, true), (64, 0, false), (128, 1, true)], 64);
        check(&[(64, 0, true), (128, 1, true)], 64);
        let healed = [(64, 0, false), (128, 1, true), (129, 1, true)];
        check(&healed, 129);
        let twice = [
            (64, 0, false),
            (128, 1, true),
            (128, 1, false),
            (256, 2, true),
        ];
        check(&twice, 64);
        check(&[(64, 0, false), (32, 1, true)], 32);
        check(&[(64, 0, false), (128, 1, true), (64, 2, true)], 64);
    }

    #[test]
    fn a_resize_counts_once_the_kubelet_has_ended_it() {
        // Seen on a kubelet: a container is shown running with the limit that it got while stopped.
        let check = |states: &[(i64, i32, bool, bool)], expected: i64| {
            let mut table = Table::default();
            for (mib, restarts, is_running, is_resizing) in states {
                let mut pod = pod(*mib, *restarts, *is_running);
                let status = if *is_resizing { "True" } else { "False" };
                pod["status"]["conditions"] = json!([{"type": IN_PROGRESS, "status": status,
                    "lastTransitionTime": "2026-01-01T00:00:20Z"}]);
                table.apply(Arc::new(parse(pod)));
            }
            let last = table.iter().next().expect("a pod");
            let in_effect = last.memory_cgroup.in_effect("app");
            let limit = in_effect.map_or(128, |in_effect| in_effect.limit.bytes() / MIB);
            assert_eq!(limit, expected, "{states:?}");
        };
        let (before, resizing) = ((64, 1, true, false), (128, 1, true, true));
        check(&[before, resizing], 64);
        check(&[before, resizing, (128, 1, false, false)], 64);
        check(&[before, resizing, (128, 1, true, false)], 128);
        check(&[before, (64, 1, true, true), (128, 1, true, false)], 128);
    }

    /// The kubelet resizes a container that was killed up to a second ago, and shows it running.
    #[test]
    fn a_kill_before_a_resize_counts_with_the_memory_before_it() {
        let check = |resize_began: &str, expected: i64| {
            let mut table = Table::default();
            let mut kills = Vec::new();
            // The second run is killed at 00:00:25.
            for (mib, is_running, status) in [
                (64, true, "False"),
                (64, true, "True"),
                (128, true, "False"),
                (128, false, "False"),
            ] {
                let mut pod = pod(mib, 1, is_running);
                pod["status"]["conditions"] = json!([{"type": IN_PROGRESS, "status": status,
                    "lastTransitionTime": format!("2026-01-01T00:00:{resize_began}Z")}]);
                if let Some(change) = table.apply(Arc::new(parse(pod)))
                    && let (Some(old), Some(new)) = (change.old, change.new)
                {
                    kills.extend(oom_kills(Some(&old), &new));
                }
            }
            let memory: Vec<_> = kills.iter().map(|kill| kill.memory.bytes() / MIB).collect();
            assert_eq!(memory, [expected], "{resize_began}");
        };
        check("21", 128);
        check("22", 64);
        check("26", 64);
    }

    #[test]
    fn a_resize_that_restarts_the_container_reaches_the_pod() {
        let check = |is_running: bool, reason: &str, is_outdated: bool| {
            let mut table = Table::default();
            for (mib, restarts, is_running) in [(64, 0, true), (128, 1, is_running)] {
                let mut pod = pod(mib, restarts, is_running);
                pod["spec"]["containers"][0]["resizePolicy"] =
                    json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
                let status = &mut pod["status"]["containerStatuses"][0];
                for state in ["state", "lastState"] {
                    if let Some(end) = status[state].get_mut("terminated") {
                        end["reason"] = json!(reason);
                    }
                }
                table.apply(Arc::new(parse(pod)));
            }
            let last = table.iter().next().expect("a pod");
            let outdated = !last.memory_cgroup.outdated.is_empty();
            assert_eq!(outdated, is_outdated, "{is_running} {reason}");
        };
        check(true, "Completed", false);
        check(false, "Error", false);
        check(true, "OOMKilled", true);
        check(false, "OOMKilled", true);
    }

    #[test]
    fn the_sum_of_the_limits_counts_only_if_each_container_has_one() {
        let check = |change: &dyn Fn(&mut Value), expected: bool| {
            let mut pod = pod(64, 0, true);
            change(&mut pod);
            assert_eq!(parse(pod).memory_cgroup.is_sum, expected);
        };
        check(&|_| (), true);
        check(
            &|pod| pod["spec"]["initContainers"] = json!([{"name": "init"}]),
            false,
        );
        check(
            &|pod| pod["spec"]["resources"] = json!({"limits": {"memory": "1Gi"}}),
            false,
        );
        check(
            &|pod| pod["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "1"}),
            false,
        );
    }

    proptest! {
        /// A container is killed at the same limit in each run, and resized between two runs as
        /// often as one likes: each kill counts with the memory of the first run.
        #[test]
        fn kills_at_the_same_limit_count_with_the_same_memory(
            sizes in proptest::collection::vec(65i64..5000, 1..20),
            while_stopped in proptest::collection::vec(any::<bool>(), 20),
        ) {
            let mut table = Table::default();
            let mut kills = Vec::new();
            let mut apply = |mib, restarts, is_running| {
                let Some(change) = table.apply(Arc::new(parse(pod(mib, restarts, is_running)))) else { return };
                if let (Some(old), Some(new)) = (change.old, change.new) {
                    kills.extend(oom_kills(Some(&old), &new));
                }
            };
            let mut size = 64;
            for (run, (next, while_stopped)) in sizes.iter().zip(&while_stopped).enumerate() {
                let run = run as i32;
                apply(size, run, true);
                apply(size, run, false);
                if *while_stopped {
                    apply(*next, run, false);
                }
                size = *next;
            }
            prop_assert_eq!(kills.len(), sizes.len());
            for kill in kills {
                prop_assert_eq!(kill.memory.bytes(), 64 * MIB);
            }
        }
    }
}
