//! OOM kills, from the difference between two states of one pod, or from its first state.
//!
//! A kill shows in `state.terminated`, and after the restart in `lastState.terminated`. Source:
//! upstream `recommender/input/oom/observer.go`, `OnUpdate`. Unlike upstream, a kill before the pod
//! was first observed counts, and so does one seen only by its back-off or restart.
//!
//! A kill counts with the smaller memory of the two states between which it happened. One state can
//! show both a kill and a later resize: while a container is stopped, the kubelet reports what its next
//! run will get. And a resize that did not reach the pod's cgroup says nothing about the new size, nor one
//! that began after the kill or just before it.

use std::sync::Arc;

use jiff::Timestamp;
use model::{ContainerRef, Memory};

use crate::memory_cgroup::MemoryCgroup;
use crate::pod::{Container, ContainerState, ContainerStatus, Pod, Termination};
use crate::table::ObjectKey;

/// One OOM kill of a container, or its eviction under memory pressure.
#[derive(Debug, Clone, PartialEq)]
pub struct OomKill {
    pub pod: ObjectKey,
    pub container: String,
    pub at: Timestamp,
    /// Memory request in effect at the kill, not the limit; for an eviction, the usage. 0 if there
    /// was no request. If the request was changed at that time, the smaller one.
    pub memory: Memory,
    /// The pod state that shows the kill; `None` for an eviction.
    pub seen_in: Option<Arc<Pod>>,
}

impl OomKill {
    pub fn container_ref(&self) -> ContainerRef {
        ContainerRef {
            namespace: self.pod.namespace.clone(),
            pod: self.pod.name.clone(),
            container: self.container.clone(),
        }
    }
}

/// The kills between two states of one pod, or all that `new` shows if there is no `old`. They are
/// ordered by time within each container.
pub fn oom_kills(old: Option<&Pod>, new: &Arc<Pod>) -> Vec<OomKill> {
    let mut kills = Vec::new();
    for after in running(new) {
        let before = old.and_then(|old| running(old).find(|before| before.name == after.name));
        kills.extend(ends(before, after).map(|(at, memory)| OomKill {
            pod: new.key.clone(),
            container: after.name.to_owned(),
            at,
            memory: memory.unwrap_or_default(),
            seen_in: Some(Arc::clone(new)),
        }));
    }
    kills
}

/// The parts of a container that show OOM kills.
#[derive(Clone, Copy)]
struct Running<'a> {
    name: &'a str,
    requested: Option<Memory>,
    status: Option<&'a ContainerStatus>,
    memory_cgroup: &'a MemoryCgroup,
}

/// The containers of a pod and its native sidecars.
fn running(pod: &Pod) -> impl Iterator<Item = Running<'_>> {
    let containers = pod.containers.iter().map(|container: &Container| Running {
        name: &container.name,
        requested: match pod.memory_cgroup.in_effect(&container.name) {
            Some(in_effect) => in_effect.request,
            None => container.requests.memory,
        },
        status: container.status.as_ref(),
        memory_cgroup: &pod.memory_cgroup,
    });
    let sidecars = pod.sidecars.iter().map(|sidecar: &Container| Running {
        name: &sidecar.name,
        requested: sidecar.requests.memory,
        status: sidecar.status.as_ref(),
        memory_cgroup: &pod.memory_cgroup,
    });
    containers.chain(sidecars)
}

/// Time and memory request of each new kill of one container.
fn ends<'a>(
    before: Option<Running<'a>>,
    after: Running<'a>,
) -> impl Iterator<Item = (Timestamp, Option<Memory>)> + 'a {
    let (old, new) = (before.and_then(|before| before.status), after.status);
    let earlier = new.and_then(|new| {
        let last = new.last_termination.as_ref();
        last.filter(|end| ended_before(old, new, end))
    });
    let just_now = new.and_then(|new| just_ended(old, new));
    let kills = earlier.into_iter().chain(just_now);
    let kills = kills.filter(|end| end.is_oom_kill());
    let memory = before.unwrap_or(after).requested.min(after.requested);
    kills.filter_map(move |end| {
        let at = end.finished_at?;
        let before = after.memory_cgroup.request_before_resize(after.name, end);
        Some((at, before.into_iter().chain(memory).min()))
    })
}

fn just_ended<'a>(
    old: Option<&ContainerStatus>,
    new: &'a ContainerStatus,
) -> Option<&'a Termination> {
    let ContainerState::Terminated(end) = &new.state else {
        return None;
    };
    let is_known = old.is_some_and(|old| {
        old.state != ContainerState::Running
            && new.restart_count <= old.restart_count
            && knows(old, end)
    });
    (!is_known).then_some(end)
}

/// Whether `end` is new: `old` has it neither as its state nor as its last termination.
fn ended_before(old: Option<&ContainerStatus>, new: &ContainerStatus, end: &Termination) -> bool {
    let Some(old) = old else { return true };
    let ran_and_runs_again =
        old.state == ContainerState::Running && new.restart_count > old.restart_count;
    ran_and_runs_again || !knows(old, end)
}

fn knows(old: &ContainerStatus, end: &Termination) -> bool {
    let at = |known: &Termination| known.finished_at == end.finished_at;
    let in_state = matches!(&old.state, ContainerState::Terminated(known) if at(known));
    in_state || old.last_termination.as_ref().is_some_and(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effective_resources::Resources;
    use crate::pod::Phase;

    const OLD_REQUEST: i64 = 100;
    const NEW_REQUEST: i64 = 200;

    fn end(reason: &str, second: i64) -> Termination {
        Termination {
            reason: reason.to_owned(),
            started_at: None,
            finished_at: Some(Timestamp::from_second(second).expect("in range")),
        }
    }

    fn killed(second: i64) -> Termination {
        end("OOMKilled", second)
    }

    fn status(
        restart_count: i32,
        state: ContainerState,
        last: impl Into<Option<Termination>>,
    ) -> ContainerStatus {
        ContainerStatus {
            restart_count,
            state,
            last_termination: last.into(),
        }
    }

    fn terminated(
        restarts: i32,
        (reason, second): (&str, i64),
        last: impl Into<Option<Termination>>,
    ) -> ContainerStatus {
        status(
            restarts,
            ContainerState::Terminated(end(reason, second)),
            last,
        )
    }

    /// A container that has just been killed for the first time.
    fn just_killed() -> ContainerStatus {
        terminated(0, ("OOMKilled", 5), None)
    }

    fn waiting(restarts: i32, last: impl Into<Option<Termination>>) -> ContainerStatus {
        status(restarts, ContainerState::Waiting, last)
    }

    fn running(restarts: i32, last: impl Into<Option<Termination>>) -> ContainerStatus {
        status(restarts, ContainerState::Running, last)
    }

    fn pod(request: i64, status: Option<ContainerStatus>) -> Arc<Pod> {
        let memory = |bytes: i64| Resources {
            cpu: None,
            memory: (bytes > 0).then_some(Memory::from_bytes(bytes)),
        };
        Arc::new(Pod {
            key: ObjectKey::new("shop", "web-1"),
            uid: "u1".to_owned(),
            labels: model::Labels::default(),
            phase: Phase::Running,
            owner: None,
            started_at: None,
            containers: vec![Container {
                name: "web".to_owned(),
                requests: memory(request),
                limits: memory(999),
                status,
            }],
            init_containers: Vec::new(),
            sidecars: Vec::new(),
            resources: None,
            memory_cgroup: crate::MemoryCgroup::default(),
            placement: None,
            running: None,
            ready_after_seconds: None,
        })
    }

    /// `expected`: second of the kill.
    #[track_caller]
    fn check(
        old: impl Into<Option<ContainerStatus>>,
        new: impl Into<Option<ContainerStatus>>,
        expected: Option<i64>,
    ) {
        let (old, new) = (pod(OLD_REQUEST, old.into()), pod(NEW_REQUEST, new.into()));
        let expected = Vec::from_iter(expected.map(|second| (second, OLD_REQUEST)));
        assert_eq!(summary(&oom_kills(Some(&old), &new)), expected);
    }

    fn summary(kills: &[OomKill]) -> Vec<(i64, i64)> {
        let kills = kills.iter();
        kills
            .map(|kill| (kill.at.as_second(), kill.memory.bytes()))
            .collect()
    }

    #[test]
    fn a_container_that_has_just_ended_counts() {
        check(running(0, None), just_killed(), Some(5));
        check(waiting(0, None), just_killed(), Some(5));
    }

    #[test]
    fn a_kill_is_seen_once() {
        check(just_killed(), just_killed(), None);
        check(just_killed(), waiting(0, killed(5)), None);
        check(waiting(0, killed(5)), running(1, killed(5)), None);
        check(running(1, killed(5)), running(1, killed(5)), None);
    }

    #[test]
    fn a_second_kill_after_a_missed_restart_counts() {
        let again = terminated(1, ("OOMKilled", 9), killed(5));
        check(just_killed(), again, Some(9));
    }

    #[test]
    fn a_container_that_already_runs_again_counts() {
        check(running(0, None), running(1, killed(5)), Some(5));
    }

    #[test]
    fn a_kill_counts_with_the_smaller_request_of_both_states() {
        for after in [just_killed(), running(1, killed(5))] {
            for (old, new) in [(100, 200), (200, 100)] {
                let old = pod(old, Some(running(0, None)));
                let kills = oom_kills(Some(&old), &pod(new, Some(after.clone())));
                assert_eq!(summary(&kills), [(5, 100)]);
            }
        }
    }

    #[test]
    fn other_ends_are_not_kills() {
        check(running(0, None), terminated(0, ("Error", 5), None), None);
        let completed = end("Completed", 5);
        check(running(0, None), running(1, completed), None);
    }

    #[test]
    fn a_kill_observed_only_by_its_back_off_or_restart_counts_once() {
        let backs_off = |restarts, second| waiting(restarts, killed(second));
        check(running(0, None), backs_off(0, 5), Some(5));
        check(backs_off(0, 5), backs_off(1, 9), Some(9));
        check(backs_off(0, 5), running(2, killed(9)), Some(9));
        check(backs_off(0, 5), just_killed(), None);
    }

    #[test]
    fn kills_within_one_second_are_told_apart_by_the_run_between_them() {
        let before = || running(1, killed(5));
        let again = terminated(1, ("OOMKilled", 5), killed(5));
        check(before(), again, Some(5));
        check(before(), running(2, killed(5)), Some(5));
    }

    #[test]
    fn a_container_that_was_not_reported_before_may_have_been_killed_already() {
        check(None, just_killed(), Some(5));
        check(running(0, None), None, None);
    }

    #[test]
    fn the_first_observed_state_shows_earlier_kills() {
        let first = |status| oom_kills(None, &pod(NEW_REQUEST, Some(status)));
        let kills = first(terminated(1, ("OOMKilled", 9), killed(5)));
        assert_eq!(summary(&kills), [(5, NEW_REQUEST), (9, NEW_REQUEST)]);
        assert_eq!(first(running(3, end("Error", 5))), []);
    }

    #[test]
    fn a_kill_without_a_time_is_skipped() {
        let mut timeless = end("OOMKilled", 5);
        timeless.finished_at = None;
        let ended = status(0, ContainerState::Terminated(timeless), None);
        check(running(0, None), ended, None);
    }

    #[test]
    fn no_request_counts_as_zero() {
        let [old, new] = [running(0, None), just_killed()].map(|status| pod(0, Some(status)));
        assert_eq!(summary(&oom_kills(Some(&old), &new)), [(5, 0)]);
    }
}
