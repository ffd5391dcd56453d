//! Restart policy of a container: the pod's, or the container's own.

use k8s_openapi::api::core::v1::{Container, Pod};

/// Restart policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    /// Restarts after every end.
    Always,
    /// Restarts after an exit code other than 0.
    OnFailure,
    Never,
}

impl Restart {
    /// The policy of one container.
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
}
