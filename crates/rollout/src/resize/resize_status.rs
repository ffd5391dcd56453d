//! The status of a resize in the pod's conditions, and the timeouts after which an eviction
//! replaces it.
//!
//! Source: upstream `pkg/updater/utils/types.go` and
//! `pkg/updater/restriction/pods_inplace_restriction.go`.

use std::time::Duration;

use jiff::Timestamp;
use view::{ResizeStage, Running};

/// The longest time for which a resize may be deferred.
const DEFERRED_TIMEOUT: Duration = Duration::from_mins(5);
/// The longest time for which a resize may be in progress.
const IN_PROGRESS_TIMEOUT: Duration = Duration::from_hours(1);

/// Beginnings and part of the kubelet's errors about the memory that a program holds.
const LOWERS_MEMORY: &str = "cannot decrease memory limits: ";
const USAGE_UNREADABLE: &str = "unable to read memory usage";
const BELOW_USAGE: &str = "below current usage";
/// Part of its message about a node that is too small.
const CAPACITY: &str = "enough capacity";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResizeStatus {
    NotResizing,
    /// The node has no room for it now.
    Deferred,
    /// The node can never hold it.
    Infeasible,
    InProgress,
    /// The kubelet does not lower a memory limit while the program holds more than the new one. It
    /// changes nothing else of the pod meanwhile, and tries again for ever.
    MemoryInUse,
    Failed,
    /// The condition has an unknown reason.
    Other,
}

impl ResizeStatus {
    /// The status by the pod's conditions. The first one says whether there is a resize at all.
    pub(crate) fn of(running: &Running) -> Self {
        if !running.resizes.first().is_some_and(|first| first.is_true) {
            return Self::NotResizing;
        }
        let first_of = |stage| running.resizes.iter().find(|it| it.stage == stage);
        let condition = first_of(ResizeStage::Pending).or(first_of(ResizeStage::InProgress));
        let Some(it) = condition else {
            return Self::Other;
        };
        match (&it.stage, it.reason.as_str(), it.message.as_str()) {
            (ResizeStage::Pending, "Deferred", _) => Self::Deferred,
            (ResizeStage::Pending, "Infeasible", _) => Self::Infeasible,
            (ResizeStage::InProgress, "", "") => Self::InProgress,
            (ResizeStage::InProgress, "Error", message) => Self::after_error(message),
            _ => Self::Other,
        }
    }

    /// The status by the kubelet's error. It looks at the usage before it lowers a memory limit.
    ///
    /// Source: `validateMemoryResizeAction` of Kubernetes 1.36.
    fn after_error(message: &str) -> Self {
        let lacks_usage =
            message.starts_with(LOWERS_MEMORY) || message.starts_with(USAGE_UNREADABLE);
        if message.starts_with(LOWERS_MEMORY) && message.contains(BELOW_USAGE) {
            Self::MemoryInUse
        } else if lacks_usage {
            Self::InProgress
        } else {
            Self::Failed
        }
    }

    /// Whether an eviction replaces the resize after this time.
    pub(crate) fn has_timed_out(self, waited: Duration) -> bool {
        match self {
            Self::NotResizing | Self::MemoryInUse => false,
            _ => self.timeout().is_none_or(|timeout| waited > timeout),
        }
    }

    /// The time after which an eviction replaces the resize; `None` if time does not matter.
    pub(crate) fn timeout(self) -> Option<Duration> {
        match self {
            Self::Deferred => Some(DEFERRED_TIMEOUT),
            Self::InProgress => Some(IN_PROGRESS_TIMEOUT),
            _ => None,
        }
    }
}

/// The time from which on the pod has been resizing, by its first condition.
pub(crate) fn resizing_since(running: &Running) -> Option<Timestamp> {
    running.resizes.first()?.since
}

/// Whether the kubelet refuses the resize since its node is too small, as before Kubernetes 1.36. Its
/// other reasons, such as the policy of the CPU manager, say nothing about nodes of the same capacity.
pub(crate) fn names_capacity(running: &Running) -> bool {
    let mut conditions = running.resizes.iter();
    conditions.any(|condition| {
        condition.stage == ResizeStage::Pending && condition.message.contains(CAPACITY)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expected: ResizeStatus) {
        assert_eq!(ResizeStatus::after_error(message), expected, "{message}");
    }

    #[test]
    fn errors_about_usage_are_no_failures() {
        // As kubelet 1.36.3 writes them.
        check(
            "cannot decrease memory limits: [attempting to set pod memory limit (104857600) below \
             current usage (211365888), attempting to set container \"app\" memory limit \
             (104857600) below current usage (211365888)]",
            ResizeStatus::MemoryInUse,
        );
        check(
            "cannot decrease memory limits: missing pod memory usage",
            ResizeStatus::InProgress,
        );
        check(
            "unable to read memory usage for pod \"web-0_default(1)\"",
            ResizeStatus::InProgress,
        );
        check(
            "failed to notify runtime for UpdatePodSandboxResources",
            ResizeStatus::Failed,
        );
    }
}
