//! Metrics of the sizing policies.

use prometheus::{
    IntCounterVec, IntGauge, IntGaugeVec, Registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry, register_int_gauge_with_registry,
};
use runtime::WriteOutcome;
use vertical::sizing_policies::plan::{Action, PolicySummary};

/// The outcomes of a write. An error is `Failed`, whatever its cause.
const OUTCOMES: [WriteOutcome; 3] = [
    WriteOutcome::Written,
    WriteOutcome::Failed,
    WriteOutcome::NotLeading,
];

/// Counts of policies, their workloads, and writes on their behalf.
#[derive(Debug, Clone)]
pub struct PolicyMetrics {
    policies: IntGauge,
    workloads: IntGaugeVec,
    writes: IntCounterVec,
}

impl PolicyMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            policies: register_int_gauge_with_registry!(
                "vpa_recommender_sizing_policies",
                "Sizing policies that this recommender handles; 0 on a standby.",
                registry,
            )?,
            workloads: register_int_gauge_vec_with_registry!(
                "vpa_recommender_sizing_policy_workloads",
                "Workloads that sizing policies select, by state; 0 on a standby.",
                &["state"],
                registry,
            )?,
            writes: register_int_counter_vec_with_registry!(
                "vpa_recommender_sizing_policy_writes_total",
                "Writes of VPA objects on behalf of sizing policies.",
                &["operation", "result"],
                registry,
            )?,
        };
        metrics.counted(&[]);
        for operation in Action::NAMES {
            for outcome in OUTCOMES {
                metrics
                    .writes
                    .with_label_values(&[operation, outcome.name()]);
            }
        }
        Ok(metrics)
    }

    /// Sets the gauges to the summaries of all policies.
    pub(crate) fn counted(&self, summaries: &[PolicySummary]) {
        let set = |state: &str, count: &dyn Fn(&PolicySummary) -> usize| {
            let sum: usize = summaries.iter().map(count).sum();
            self.workloads
                .with_label_values(&[state])
                .set(i64::try_from(sum).unwrap_or(i64::MAX));
        };
        self.policies
            .set(i64::try_from(summaries.len()).unwrap_or(i64::MAX));
        set("managed", &|summary| summary.managed);
        set("conflicting", &|summary| summary.conflicts.count);
        set("overridden", &|summary| summary.overridden.count);
    }

    /// Counts one write.
    pub(crate) fn written(&self, action: &Action, outcome: WriteOutcome) {
        self.writes
            .with_label_values(&[action.name(), outcome.name()])
            .inc();
    }
}
