//! Restarts of a container: its policy, which is the pod's or its own, and the delays, as in a kubelet:
//! none the first time, then the base (10 s), doubled each time up to five minutes. A run longer than
//! twice that limit resets them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    /// Restarts after every end.
    Always,
    /// Restarts after an exit code other than 0.
    OnFailure,
    Never,
}

impl Restart {
    pub(super) fn of(pod: &Pod, container: &Container, init: bool) -> Self {
        let policy = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref());
        match (container.restart_policy.as_deref().or(policy), init) {
            (Some("Never"), _) => Self::Never,
            (Some("OnFailure"), _) => Self::OnFailure,
            (_, true) if container.restart_policy.is_none() => Self::OnFailure,
            _ => Self::Always,
        }
    }

    /// Whether a container restarts after this exit code.
    pub(super) fn again(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

/// The longest delay.
const CAP: Duration = Duration::from_mins(5);

/// The delays of one container.
#[derive(Clone, Debug)]
pub(super) struct BackOff {
    base: Duration,
    next: Duration,
}

impl BackOff {
    /// A container that has not ended yet.
    pub(super) fn new(base: Duration) -> Self {
        Self {
            base,
            next: Duration::ZERO,
        }
    }

    /// The delay after a run of this length.
    pub(super) fn after(&mut self, run: Duration) -> Duration {
        if run > 2 * CAP {
            self.next = Duration::ZERO;
        }
        let wait = self.next;
        self.next = if wait.is_zero() { self.base } else { wait * 2 }.min(CAP);
        wait
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubelet::fixture::pod;

    #[track_caller]
    fn check(pod_policy: &str, container_policy: Option<&str>, init: bool, expected: Restart) {
        let pod = pod(&json!({"spec": {"restartPolicy": pod_policy}}));
        let container = Container {
            restart_policy: container_policy.map(str::to_owned),
            ..Container::default()
        };
        assert_eq!(Restart::of(&pod, &container, init), expected);
    }

    #[test]
    fn init_containers_run_until_they_succeed_unless_the_pod_never_restarts() {
        check("Always", None, false, Restart::Always);
        check("Always", None, true, Restart::OnFailure);
        check("Never", None, true, Restart::Never);
        check("OnFailure", None, true, Restart::OnFailure);
        check("OnFailure", None, false, Restart::OnFailure);
    }

    #[test]
    fn a_sidecar_always_restarts() {
        check("Never", Some("Always"), true, Restart::Always);
        check("OnFailure", Some("Always"), true, Restart::Always);
    }

    #[test]
    fn waits_double_up_to_five_minutes() {
        let mut back_off = BackOff::new(Duration::from_secs(10));
        let waits: Vec<u64> = (0..8)
            .map(|_| back_off.after(Duration::from_secs(1)).as_secs())
            .collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_long_run_resets_the_delay() {
        let mut back_off = BackOff::new(Duration::from_secs(10));
        for _ in 0..5 {
            back_off.after(Duration::from_secs(1));
        }
        assert_eq!(back_off.after(Duration::from_mins(10)).as_secs(), 160);
        assert_eq!(back_off.after(Duration::from_secs(601)).as_secs(), 0);
        assert_eq!(back_off.after(Duration::from_secs(1)).as_secs(), 10);
    }
}
