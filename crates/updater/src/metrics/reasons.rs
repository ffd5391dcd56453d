//! Values of the label `reason`.

use rollout::{Action, ActionOutcome, ActionReason, SkipReason, VpaPauseReason};

pub(super) const EVICTION_ERROR: &str = "EvictionError";
pub(super) const RESIZE_ERROR: &str = "InPlaceUpdateError";
pub(super) const RESIZE_INFEASIBLE: &str = "InPlaceUpdateInfeasible";
pub(super) const UNBOOST_ERROR: &str = "UnboostError";

pub(super) fn resize_failure(action: &Action, outcome: &ActionOutcome) -> &'static str {
    match outcome {
        _ if action.reason == ActionReason::BoostExpired => UNBOOST_ERROR,
        ActionOutcome::Infeasible => RESIZE_INFEASIBLE,
        _ => RESIZE_ERROR,
    }
}

pub(super) fn skipped(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::EvictionTolerance => "no_room",
        SkipReason::DisruptionBudget => "disruption_budget",
        SkipReason::MultipleBudgets => "several_budgets",
        SkipReason::BackingOff => "backing_off",
        SkipReason::RecentOomKill => "recent_oom_kill",
        SkipReason::EvictionIneffective => "in_vain",
        SkipReason::Settling => "settling",
        SkipReason::EvictionRequirements => "requirements",
        SkipReason::KnownInfeasible => "known_infeasible",
        SkipReason::ResizePending => "already_asked",
        SkipReason::QosClass => "qos_class",
        SkipReason::ResizeRejected => "refused",
        SkipReason::RecentlyReverted => "reverted",
    }
}

pub(super) fn paused_vpa(reason: &VpaPauseReason) -> &'static str {
    match reason {
        VpaPauseReason::RecommendationFrozen => "frozen",
        VpaPauseReason::OutsideWindow { .. } => "outside_window",
        VpaPauseReason::InvalidWindow(_) => "unreadable_window",
    }
}
