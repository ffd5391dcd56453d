//! What the kubelet makes of a resize, and when it is given up for an eviction.
//!
//! Source: upstream `pkg/updater/utils/types.go` and
//! `pkg/updater/restriction/pods_inplace_restriction.go`.

use std::time::Duration;

use view::{ResizeCondition, ResizeStage, Running};

/// How long a resize may wait for room on its node.
const DEFERRED_TIMEOUT: Duration = Duration::from_mins(5);
/// How long a resize may take.
const IN_PROGRESS_TIMEOUT: Duration = Duration::from_hours(1);

/// How far a resize is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResizeStatus {
    /// There is none.
    NotResizing,
    /// The node has no room for it now.
    Deferred,
    /// The node can never hold it.
    Infeasible,
    /// The kubelet is at it.
    InProgress,
    /// The kubelet failed.
    Failed,
    /// It says something else.
    Other,
}

impl ResizeStatus {
    /// What the conditions say. The first of them decides whether there is a resize at all.
    pub(super) fn of(running: &Running) -> Self {
        if !running.resizes.first().is_some_and(|first| first.holds) {
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

    /// Whether an eviction would come sooner, once it has gone on for so long.
    pub(super) fn has_timed_out(self, waited: Duration) -> bool {
        match self {
            Self::NotResizing => false,
            Self::Deferred => waited > DEFERRED_TIMEOUT,
            Self::InProgress => waited > IN_PROGRESS_TIMEOUT,
            Self::Infeasible | Self::Failed | Self::Other => true,
        }
    }

    /// After how long it is given up; none if waiting changes nothing.
    pub(super) fn timeout(self) -> Option<Duration> {
        match self {
            Self::Deferred => Some(DEFERRED_TIMEOUT),
            Self::InProgress => Some(IN_PROGRESS_TIMEOUT),
            Self::NotResizing | Self::Infeasible | Self::Failed | Self::Other => None,
        }
    }
}
