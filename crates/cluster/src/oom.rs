//! Containers that were killed because they ran out of memory, seen as the difference between two states of one pod.
//!
//! A kill shows in one of two ways: the container has just ended (`state.terminated`), or it is already running again
//! and says how it ended (`lastState.terminated`). Source: upstream `recommender/input/oom/observer.go`, `OnUpdate`.

use jiff::Timestamp;
use model::Memory;

use crate::pod::{Container, ContainerState, ContainerStatus, Pod, Termination};
use crate::table::ObjectKey;

const OOM_KILLED: &str = "OOMKilled";

/// One kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomKill {
    /// The pod.
    pub pod: ObjectKey,
    /// Name of the container.
    pub container: String,
    /// When it was killed.
    pub at: Timestamp,
    /// The memory request it was killed with; 0 if it had none. Its limit is not asked.
    pub memory_request: Memory,
}

/// The kills that happened between two states of one pod.
pub fn oom_kills(old: &Pod, new: &Pod) -> Vec<OomKill> {
    new.containers
        .iter()
        .filter_map(|after| {
            let before = old.containers.iter().find(|before| before.name == after.name)?;
            let (at, killed) = kill(before, after)?;
            Some(OomKill {
                pod: new.key.clone(),
                container: killed.name.clone(),
                at,
                memory_request: killed.requests.memory.unwrap_or_default(),
            })
        })
        .collect()
}

/// When the container was killed, and the version of it that carries the request it was killed with.
fn kill<'a>(before: &'a Container, after: &'a Container) -> Option<(Timestamp, &'a Container)> {
    let (old, new) = (before.status.as_ref()?, after.status.as_ref()?);
    if let Some(termination) = just_ended(old, new) {
        return termination.finished_at.map(|at| (at, after));
    }
    let termination = ended_and_runs_again(old, new)?;
    termination.finished_at.map(|at| (at, before))
}

fn just_ended<'a>(old: &ContainerStatus, new: &'a ContainerStatus) -> Option<&'a Termination> {
    let ContainerState::Terminated(termination) = &new.state else { return None };
    let is_new = !matches!(old.state, ContainerState::Terminated(_)) || new.restart_count > old.restart_count;
    (is_new && termination.reason == OOM_KILLED).then_some(termination)
}

fn ended_and_runs_again<'a>(old: &ContainerStatus, new: &'a ContainerStatus) -> Option<&'a Termination> {
    let runs = old.state == ContainerState::Running && new.state == ContainerState::Running;
    let restarted = new.restart_count > old.restart_count;
    new.last_termination.as_ref().filter(|last| runs && restarted && last.reason == OOM_KILLED)
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

    fn status(restart_count: i32, state: ContainerState, last: Option<Termination>) -> ContainerStatus {
        ContainerStatus { restart_count, state, last_termination: last }
    }

    fn terminated(reason: &str, second: i64) -> ContainerState {
        ContainerState::Terminated(end(reason, second))
    }

    fn pod(request: i64, status: Option<ContainerStatus>) -> Pod {
        Pod {
            key: ObjectKey::new("shop", "web-1"),
            uid: "u1".to_owned(),
            labels: model::Labels::default(),
            phase: Phase::Running,
            owner: None,
            started_at: None,
            containers: vec![Container {
                name: "web".to_owned(),
                requests: Resources { cpu: None, memory: (request > 0).then_some(Memory::from_bytes(request)) },
                limits: Resources { cpu: None, memory: Some(Memory::from_bytes(999)) },
                status,
            }],
            init_containers: Vec::new(),
            placement: None,
        }
    }

    /// `expected`: second and memory request of the kill.
    fn check(
        old: impl Into<Option<ContainerStatus>>,
        new: impl Into<Option<ContainerStatus>>,
        expected: Option<(i64, i64)>,
    ) {
        let kills: Vec<_> = oom_kills(&pod(OLD_REQUEST, old.into()), &pod(NEW_REQUEST, new.into()))
            .into_iter()
            .map(|kill| (kill.at.as_second(), kill.memory_request.bytes()))
            .collect();
        assert_eq!(kills, Vec::from_iter(expected));
    }

    fn running(restarts: i32, last: Option<Termination>) -> ContainerStatus {
        status(restarts, ContainerState::Running, last)
    }

    #[test]
    fn a_container_that_has_just_ended_counts_with_its_new_request() {
        check(running(0, None), status(0, terminated("OOMKilled", 5), None), Some((5, NEW_REQUEST)));
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
        check(ended(), status(0, ContainerState::Waiting, Some(end("OOMKilled", 5))), None);
        check(
            status(0, ContainerState::Waiting, Some(end("OOMKilled", 5))),
            running(1, Some(end("OOMKilled", 5))),
            None,
        );
        check(running(1, Some(end("OOMKilled", 5))), running(1, Some(end("OOMKilled", 5))), None);
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
        check(running(0, None), running(1, Some(end("OOMKilled", 5))), Some((5, OLD_REQUEST)));
    }

    #[test]
    fn other_ends_are_not_kills() {
        check(running(0, None), status(0, terminated("Error", 5), None), None);
        check(running(0, None), running(1, Some(end("Completed", 5))), None);
    }

    #[test]
    fn a_container_that_was_not_reported_before_is_passed_over() {
        check(None, status(0, terminated("OOMKilled", 5), None), None);
        check(running(0, None), None, None);
    }

    #[test]
    fn a_kill_without_a_time_is_passed_over() {
        let timeless = Termination { finished_at: None, ..end("OOMKilled", 5) };
        check(running(0, None), status(0, ContainerState::Terminated(timeless), None), None);
    }

    #[test]
    fn no_request_counts_as_zero() {
        let kills =
            oom_kills(&pod(0, Some(running(0, None))), &pod(0, Some(status(0, terminated("OOMKilled", 5), None))));
        assert_eq!(kills.iter().map(|kill| kill.memory_request.bytes()).collect::<Vec<_>>(), [0]);
    }
}
