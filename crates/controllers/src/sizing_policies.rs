//! Controller of `SizingPolicy` and `ClusterSizingPolicy` objects: creates a
//! `VerticalPodAutoscaler` for each workload that they select. The decisions are in
//! [`vertical::sizing_policies`].

mod controller;
mod writer;

use api::sizing_policy::PolicyCounts;
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec};
use runtime::WriteOutcome;
use runtime::metrics::count;
use vertical::sizing_policies::plan::{Action, PolicySummary};

pub use controller::{PolicyController, PolicyInputs};

/// The outcomes of a write. An error is `Failed`, whatever its cause.
const OUTCOMES: [WriteOutcome; 3] = [
    WriteOutcome::Written,
    WriteOutcome::Failed,
    WriteOutcome::NotLeading,
];

runtime::metrics! {
    /// Counts of policies, their workloads, and writes on their behalf.
    pub struct PolicyMetrics {
        policies: IntGauge = "vpa_recommender_sizing_policies",
            "Sizing policies that this recommender handles; 0 on a standby.";
        workloads: IntGaugeVec { state: ["managed", "conflicting", "overridden"] }
            = "vpa_recommender_sizing_policy_workloads",
            "Workloads that sizing policies select, by state; 0 on a standby.";
        writes: IntCounterVec { operation: Action::NAMES, result: OUTCOMES.map(WriteOutcome::name) }
            = "vpa_recommender_sizing_policy_writes_total",
            "Writes of VPA objects on behalf of sizing policies.";
    }
}

impl PolicyMetrics {
    pub(crate) fn counted(&self, summaries: &[PolicySummary]) {
        let set = |state: &str, workloads: &dyn Fn(&PolicyCounts) -> i64| {
            let sum = summaries
                .iter()
                .map(|summary| workloads(&summary.counts))
                .sum();
            self.workloads.with_label_values(&[state]).set(sum);
        };
        self.policies.set(count(summaries.len()));
        set("managed", &|counts| counts.managed);
        set("conflicting", &|counts| counts.conflicts);
        set("overridden", &|counts| counts.overridden);
    }

    pub(crate) fn written(&self, action: &Action, outcome: WriteOutcome) {
        self.writes
            .with_label_values(&[action.name(), outcome.name()])
            .inc();
    }
}
