//! The status of a resize in the pod's conditions, and the timeouts after which an eviction
//! replaces it.
//!
//! Source: upstream `pkg/updater/utils/types.go` and
//! `pkg/updater/restriction/pods_inplace_restriction.go`.

use std::time::Duration;

use view::{ResizeCondition, ResizeStage, Running};

/// The longest time for which a resize may be deferred.
const DEFERRED_TIMEOUT: Duration = Duration::from_mins(5);
/// The longest time for which a resize may be in progress.
const IN_PROGRESS_TIMEOUT: Duration = Duration::from_hours(1);

/// The status of a resize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResizeStatus {
    /// There is no resize.
    NotResizing,
    /// The node has no room for it now.
    Deferred,
    /// The node can never hold it.
    Infeasible,
    /// The kubelet carries it out.
    InProgress,
    /// The kubelet reports an error.
    Failed,
    /// The condition has an unknown reason.
    Other,
}

impl ResizeStatus {
    /// The status by the pod's conditions. The first one says whether there is a resize at all.
    pub(super) fn of(running: &Running) -> Self {
        if !running.resizes.first().is_some_and(|first| first.is_true) {
            return Self::NotResizing;
        }
        let first_of = |stage| {
            running
                .resizes
                .iter()
                .find(|condition| condition.stage == stage)
        };
        match (
            first_of(ResizeStage::Pending),
            first_of(ResizeStage::InProgress),
        ) {
            (Some(ResizeCondition { reason, .. }), _) => match reason.as_str() {
                "Deferred" => Self::Deferred,
                "Infeasible" => Self::Infeasible,
                _ => Self::Other,
            },
            (
                None,
                Some(ResizeCondition {
                    reason, message, ..
                }),
            ) => match (reason.as_str(), message.as_str()) {
                ("", "") => Self::InProgress,
                ("Error", _) => Self::Failed,
                _ => Self::Other,
            },
            (None, None) => Self::Other,
        }
    }

    /// Whether an eviction replaces the resize after this time.
    pub(super) fn has_timed_out(self, waited: Duration) -> bool {
        match self {
            Self::NotResizing => false,
            Self::Deferred => waited > DEFERRED_TIMEOUT,
            Self::InProgress => waited > IN_PROGRESS_TIMEOUT,
            Self::Infeasible | Self::Failed | Self::Other => true,
        }
    }

    /// The time after which an eviction replaces the resize; `None` if time does not matter.
    pub(super) fn timeout(self) -> Option<Duration> {
        match self {
            Self::Deferred => Some(DEFERRED_TIMEOUT),
            Self::InProgress => Some(IN_PROGRESS_TIMEOUT),
            Self::NotResizing | Self::Infeasible | Self::Failed | Self::Other => None,
        }
    }
}
