//! Values of the label `reason`.

use rollout::{Action, ActionOutcome, ActionReason, RollingUpdateRefusal, VpaPauseReason};

pub(super) const EVICTION_ERROR: &str = "EvictionError";
pub(super) const RESIZE_ERROR: &str = "InPlaceUpdateError";
pub(super) const RESIZE_INFEASIBLE: &str = "InPlaceUpdateInfeasible";
pub(super) const UNBOOST_ERROR: &str = "UnboostError";

/// Rolling updates, moves and reads that the API server or the load-watcher refused or did not answer.
pub(super) const ERROR: &str = "error";

pub(super) fn refused_reasons() -> Vec<&'static str> {
    let refusals = RollingUpdateRefusal::ALL.map(RollingUpdateRefusal::as_str);
    refusals.into_iter().chain([ERROR]).collect()
}

pub(super) fn resize_failure(action: &Action, outcome: &ActionOutcome) -> &'static str {
    match outcome {
        _ if action.reason == ActionReason::BoostExpired => UNBOOST_ERROR,
        ActionOutcome::Infeasible => RESIZE_INFEASIBLE,
        _ => RESIZE_ERROR,
    }
}

/// All values of [`paused_vpa`].
pub(super) const PAUSED_VPAS: [&str; 4] = [
    "frozen",
    "outside_window",
    "unreadable_window",
    "rolled_back",
];

pub(super) fn paused_vpa(reason: &VpaPauseReason) -> &'static str {
    match reason {
        VpaPauseReason::RecommendationFrozen => "frozen",
        VpaPauseReason::OutsideWindow { .. } => "outside_window",
        VpaPauseReason::InvalidWindow(_) => "unreadable_window",
        VpaPauseReason::RolledBack(_) => "rolled_back",
    }
}
