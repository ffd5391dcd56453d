//! Values of the label `reason`.

use rollout::{
    Action, ActionOutcome, ActionReason, Refusal, RollingUpdateRefusal, SkipReason, VpaPauseReason,
};

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

pub(super) fn skipped(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::TooFewReplicas => "too_few_replicas",
        SkipReason::EvictionTolerance => "eviction_tolerance",
        SkipReason::DisruptionBudget => "disruption_budget",
        SkipReason::MultipleBudgets => "several_budgets",
        SkipReason::BackingOff => "backing_off",
        SkipReason::RecentOomKill => "recent_oom_kill",
        SkipReason::EvictionIneffective => "eviction_ineffective",
        SkipReason::WebhookNotCalled => "webhook_not_called",
        SkipReason::Paced => "paced",
        SkipReason::Settling => "settling",
        SkipReason::EvictionRequirements => "requirements",
        SkipReason::KnownInfeasible => "known_infeasible",
        SkipReason::ResizePending => "resize_pending",
        SkipReason::MemoryInUse => "memory_in_use",
        SkipReason::QosClass => "qos_class",
        SkipReason::ResizeRejected => "resize_rejected",
        SkipReason::ResizeForbidden => "resize_forbidden",
        SkipReason::RecentlyReverted => "reverted",
        SkipReason::RollingUpdatePending => "rolling_update_pending",
        SkipReason::RollingUpdateRefused => "rolling_update_refused",
        SkipReason::RollingUpdateIneffective => "rolling_update_ineffective",
        SkipReason::ContainerStopped => "container_stopped",
        SkipReason::OomKilledAtTarget => "oom_killed_at_target",
        SkipReason::Refused(Refusal::ContainerLimit) => "limit_too_low",
        SkipReason::Refused(Refusal::LimitRange) => "limit_range",
        SkipReason::Refused(Refusal::LimitRangeOfPod) => "limit_range_of_pod",
        SkipReason::Refused(Refusal::PodResources) => "pod_resources",
        SkipReason::InvalidReplacement => "invalid_replacement",
    }
}

pub(super) fn paused_vpa(reason: &VpaPauseReason) -> &'static str {
    match reason {
        VpaPauseReason::RecommendationFrozen => "frozen",
        VpaPauseReason::OutsideWindow { .. } => "outside_window",
        VpaPauseReason::InvalidWindow(_) => "unreadable_window",
    }
}
