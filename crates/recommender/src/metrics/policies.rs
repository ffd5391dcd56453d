//! Metrics of the sizing policies.

use prometheus::core::Collector;
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts};
use vertical::policies::plan::{Action, PolicySummary};

use crate::outcome::PolicyOutcome;

/// Counts of policies, their workloads, and writes on their behalf.
#[derive(Debug, Clone)]
pub(crate) struct PolicyMetrics {
    policies: IntGauge,
    workloads: IntGaugeVec,
    writes: IntCounterVec,
}

impl PolicyMetrics {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let metrics = Self {
            policies: IntGauge::new(
                "vpa_recommender_sizing_policies",
                "Sizing policies that this recommender handles; 0 on a standby.",
            )?,
            workloads: IntGaugeVec::new(
                Opts::new(
                    "vpa_recommender_sizing_policy_workloads",
                    "Workloads that sizing policies select, by state; 0 on a standby.",
                ),
                &["state"],
            )?,
            writes: IntCounterVec::new(
                Opts::new(
                    "vpa_recommender_sizing_policy_writes_total",
                    "Writes of VPA objects on behalf of sizing policies.",
                ),
                &["operation", "result"],
            )?,
        };
        metrics.counted(&[]);
        for operation in Action::NAMES {
            for result in PolicyOutcome::NAMES {
                metrics.writes.with_label_values(&[operation, result]);
            }
        }
        Ok(metrics)
    }

    pub(super) fn collectors(&self) -> [Box<dyn Collector>; 3] {
        [
            Box::new(self.policies.clone()),
            Box::new(self.workloads.clone()),
            Box::new(self.writes.clone()),
        ]
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
    pub(crate) fn written(&self, action: &Action, outcome: &PolicyOutcome) {
        self.writes
            .with_label_values(&[action.name(), outcome.name()])
            .inc();
    }
}
