//! OOM kills, found as the difference between two states of one pod, or in its first observed
//! state.
//!
//! A kill shows in `state.terminated`, and after the restart in `lastState.terminated`. Source:
//! upstream `recommender/input/oom/observer.go`, `OnUpdate`. Unlike upstream, a kill before the pod
//! was first observed counts, and so does one of which only the back-off or the restart is
//! observed.

use std::sync::Arc;

use jiff::Timestamp;
use model::Memory;

use crate::pod::{Container, ContainerState, ContainerStatus, Pod, Sidecar, Termination};
use crate::table::ObjectKey;

const OOM_KILLED: &str = "OOMKilled";

/// One OOM kill of a container, or its eviction under memory pressure.
#[derive(Debug, Clone, PartialEq)]
pub struct OomKill {
    /// The pod.
    pub pod: ObjectKey,
    /// Name of the container.
    pub container: String,
    /// Time of the kill.
    pub at: Timestamp,
    /// Memory request at the kill, not the limit; for an eviction, the usage. 0 if there was no
    /// request.
    pub memory: Memory,
    /// The pod state that shows the kill; `None` for an eviction.
    pub seen_in: Option<Arc<Pod>>,
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
}

/// The containers of a pod and its native sidecars.
fn running(pod: &Pod) -> impl Iterator<Item = Running<'_>> {
    let containers = pod.containers.iter().map(
        |Container {
             name,
             requests,
             status,
             ..
         }| (name, requests, status),
    );
    let sidecars = pod.sidecars.iter().map(
        |Sidecar {
             name,
             requests,
             status,
         }| (name, requests, status),
    );
    let both = containers.chain(sidecars);
    both.map(|(name, requests, status)| Running {
        name,
        requested: requests.memory,
        status: status.as_ref(),
    })
}

/// Time and memory request of each new kill of one container.
fn ends<'a>(
    before: Option<Running<'a>>,
    after: Running<'a>,
) -> impl Iterator<Item = (Timestamp, Option<Memory>)> + 'a {
    let (old, new) = (before.and_then(|before| before.status), after.status);
    let earlier = new.and_then(|new| {
        new.last_termination
            .as_ref()
            .filter(|end| ended_before(old, new, end))
    });
    let just_now = new.and_then(|new| just_ended(old, new));
    let earlier = earlier.map(|end| (end, before.unwrap_or(after).requested));
    let all = earlier
        .into_iter()
        .chain(just_now.map(|end| (end, after.requested)));
    all.filter(|(end, _)| end.reason == OOM_KILLED)
        .filter_map(|(end, memory)| Some((end.finished_at?, memory)))
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

/// Whether `end` is a new termination: `old` has it neither as its state nor as its last
/// termination.
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
    use crate::pod::Phase;
    use crate::resources::Resources;

    const OLD_REQUEST: i64 = 100;
    const NEW_REQUEST: i64 = 200;

    fn end(reason: &str, second: i64) -> Termination {
        Termination {
            reason: reason.to_owned(),
            started_at: None,
            finished_at: Some(Timestamp::from_second(second).expect("in range")),
        }
    }

    fn status(
        restart_count: i32,
        state: ContainerState,
        last: Option<Termination>,
    ) -> ContainerStatus {
        ContainerStatus {
            restart_count,
            state,
            last_termination: last,
        }
    }

    fn terminated(reason: &str, second: i64) -> ContainerState {
        ContainerState::Terminated(end(reason, second))
    }

    fn pod(request: i64, status: Option<ContainerStatus>) -> Arc<Pod> {
        Arc::new(Pod {
            key: ObjectKey::new("shop", "web-1"),
            uid: "u1".to_owned(),
            labels: model::Labels::default(),
            phase: Phase::Running,
            owner: None,
            started_at: None,
            containers: vec![Container {
                name: "web".to_owned(),
                requests: Resources {
                    cpu: None,
                    memory: (request > 0).then_some(Memory::from_bytes(request)),
                },
                limits: Resources {
                    cpu: None,
                    memory: Some(Memory::from_bytes(999)),
                },
                status,
            }],
            init_containers: Vec::new(),
            sidecars: Vec::new(),
            requests: None,
            placement: None,
            running: None,
        })
    }

    /// `expected`: second and memory request of the kill.
    fn check(
        old: impl Into<Option<ContainerStatus>>,
        new: impl Into<Option<ContainerStatus>>,
        expected: Option<(i64, i64)>,
    ) {
        let kills = oom_kills(
            Some(&pod(OLD_REQUEST, old.into())),
            &pod(NEW_REQUEST, new.into()),
        );
        assert_eq!(summary(&kills), Vec::from_iter(expected));
    }

    /// Second and memory of each kill.
    fn summary(kills: &[OomKill]) -> Vec<(i64, i64)> {
        kills
            .iter()
            .map(|kill| (kill.at.as_second(), kill.memory.bytes()))
            .collect()
    }

    fn running(restarts: i32, last: Option<Termination>) -> ContainerStatus {
        status(restarts, ContainerState::Running, last)
    }

    #[test]
    fn a_container_that_has_just_ended_counts_with_its_new_request() {
        check(
            running(0, None),
            status(0, terminated("OOMKilled", 5), None),
            Some((5, NEW_REQUEST)),
        );
        check(
            status(0, ContainerState::Waiting, None),
            status(0, terminated("OOMKilled", 5), None),
            Some((5, NEW_REQUEST)),
        );
    }

    #[test]
    fn a_kill_is_seen_once() {
        let ended = || status(0, terminated("OOMKilled", 5), None);
        check(ended(), ended(), None);
        check(
            ended(),
            status(0, ContainerState::Waiting, Some(end("OOMKilled", 5))),
            None,
        );
        check(
            status(0, ContainerState::Waiting, Some(end("OOMKilled", 5))),
            running(1, Some(end("OOMKilled", 5))),
            None,
        );
        check(
            running(1, Some(end("OOMKilled", 5))),
            running(1, Some(end("OOMKilled", 5))),
            None,
        );
    }

    #[test]
    fn a_second_kill_after_a_missed_restart_counts() {
        check(
            status(0, terminated("OOMKilled", 5), None),
            status(1, terminated("OOMKilled", 9), Some(end("OOMKilled", 5))),
            Some((9, NEW_REQUEST)),
        );
    }

    #[test]
    fn a_container_that_already_runs_again_counts_with_its_old_request() {
        check(
            running(0, None),
            running(1, Some(end("OOMKilled", 5))),
            Some((5, OLD_REQUEST)),
        );
    }

    #[test]
    fn other_ends_are_not_kills() {
        check(
            running(0, None),
            status(0, terminated("Error", 5), None),
            None,
        );
        check(
            running(0, None),
            running(1, Some(end("Completed", 5))),
            None,
        );
    }

    #[test]
    fn a_kill_observed_only_by_its_back_off_or_restart_counts_once() {
        let backs_off = |restarts, second| {
            status(
                restarts,
                ContainerState::Waiting,
                Some(end("OOMKilled", second)),
            )
        };
        check(running(0, None), backs_off(0, 5), Some((5, OLD_REQUEST)));
        check(backs_off(0, 5), backs_off(1, 9), Some((9, OLD_REQUEST)));
        check(
            backs_off(0, 5),
            running(2, Some(end("OOMKilled", 9))),
            Some((9, OLD_REQUEST)),
        );
        check(
            backs_off(0, 5),
            status(0, terminated("OOMKilled", 5), None),
            None,
        );
    }

    #[test]
    fn kills_within_one_second_are_told_apart_by_the_run_between_them() {
        let again = || running(1, Some(end("OOMKilled", 5)));
        check(
            again(),
            status(1, terminated("OOMKilled", 5), Some(end("OOMKilled", 5))),
            Some((5, NEW_REQUEST)),
        );
        check(
            again(),
            running(2, Some(end("OOMKilled", 5))),
            Some((5, OLD_REQUEST)),
        );
    }

    #[test]
    fn a_container_that_was_not_reported_before_may_have_been_killed_already() {
        check(
            None,
            status(0, terminated("OOMKilled", 5), None),
            Some((5, NEW_REQUEST)),
        );
        check(running(0, None), None, None);
    }

    #[test]
    fn the_first_observed_state_shows_earlier_kills() {
        let twice = status(1, terminated("OOMKilled", 9), Some(end("OOMKilled", 5)));
        let kills = oom_kills(None, &pod(NEW_REQUEST, Some(twice)));
        assert_eq!(summary(&kills), [(5, NEW_REQUEST), (9, NEW_REQUEST)]);
        assert_eq!(
            oom_kills(
                None,
                &pod(NEW_REQUEST, Some(running(3, Some(end("Error", 5)))))
            ),
            []
        );
    }

    #[test]
    fn a_kill_without_a_time_is_skipped() {
        let timeless = Termination {
            finished_at: None,
            ..end("OOMKilled", 5)
        };
        check(
            running(0, None),
            status(0, ContainerState::Terminated(timeless), None),
            None,
        );
    }

    #[test]
    fn no_request_counts_as_zero() {
        let kills = oom_kills(
            Some(&pod(0, Some(running(0, None)))),
            &pod(0, Some(status(0, terminated("OOMKilled", 5), None))),
        );
        assert_eq!(summary(&kills), [(5, 0)]);
    }
}
