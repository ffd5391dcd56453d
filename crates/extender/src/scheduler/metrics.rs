//! Metrics of the extender protocol.

use std::time::Duration;

use placement::FallbackReason;
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge};

/// Limits of the buckets in seconds: from a tenth of the goal for 5,000 nodes to the timeout.
const BUCKETS: [f64; 11] = [
    0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0, 5.0,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Filter,
    Prioritize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    Load,
    /// Requests, since load is missing.
    Allocation(FallbackReason),
    /// None: all nodes are equal.
    Neutral(NeutralReason),
}

/// Reason for equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NeutralReason {
    Deadline,
    /// The view of the cluster is not complete yet.
    NotSynced,
    /// The filter has no thresholds.
    Off,
}

runtime::metrics! {
    pub(super) struct Metrics {
        answers: IntCounterVec { verb, basis, reason } = "plimsoll_extender_answers_total",
            "Answers to kube-scheduler by verb, basis (load, allocation, neutral) and reason.";
        refusals: IntCounterVec { verb, reason } = "plimsoll_extender_refused_requests_total",
            "Requests that were refused, by verb and reason.";
        duration: HistogramVec { verb } [BUCKETS] = "plimsoll_extender_request_duration_seconds",
            "Time from the headers of a request to its answer, by verb.";
        pub(super) suspended_filters: IntCounter = "plimsoll_extender_suspended_filters_total",
            "Requests without removals since too many nodes were above a threshold.";
        pub(super) unknown_nodes: IntCounter = "plimsoll_extender_unknown_nodes_total",
            "Offered nodes that the extender does not know.";
        pub(super) invalid_policies: IntCounter = "plimsoll_extender_invalid_policies_total",
            "Pods to place whose annotation plimsoll.dev/placement-policy is invalid.";
        pub(super) reservations: IntGauge = "plimsoll_extender_reservations",
            "Pods whose load is reserved on a node, and pods that ended lately.";
        pub(super) evicted_reservations: IntCounter = "plimsoll_extender_evicted_reservations_total",
            "Reservations that made room for others at the limit.";
    }
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Prioritize => "prioritize",
        }
    }
}

impl Basis {
    /// Value of the response header, and label.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Allocation(_) => "allocation",
            Self::Neutral(_) => "neutral",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Load => "",
            Self::Allocation(FallbackReason::NoMetrics) => "no_metrics",
            Self::Allocation(FallbackReason::StaleMetrics { .. }) => "stale_metrics",
            Self::Allocation(FallbackReason::LowCoverage { .. }) => "low_coverage",
            Self::Neutral(NeutralReason::Deadline) => "deadline",
            Self::Neutral(NeutralReason::NotSynced) => "not_synced",
            Self::Neutral(NeutralReason::Off) => "off",
        }
    }
}

impl Metrics {
    pub(super) fn record(&self, verb: Verb, basis: Basis, took: Duration) {
        let labels = [verb.name(), basis.name(), basis.reason()];
        self.answers.with_label_values(&labels).inc();
        let duration = self.duration.with_label_values(&[verb.name()]);
        duration.observe(took.as_secs_f64());
    }

    /// Records a refused request. `reason`: `too_large`, `invalid`, `overloaded` or `unknown_profile`.
    pub(super) fn refuse(&self, verb: Verb, reason: &str) {
        let labels = [verb.name(), reason];
        self.refusals.with_label_values(&labels).inc();
    }
}
