//! Metrics of rolling updates.

use prometheus::{Error, IntCounter, IntCounterVec};
use rollout::{ActionOutcome, RollingUpdateRefusal};

use super::families::Families;

/// The label of attempts that the API server refused or did not answer.
const ERROR: &str = "error";

/// The metrics of rolling updates. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct RollingUpdateMetrics {
    begun: IntCounter,
    refused: IntCounterVec,
}

impl RollingUpdateMetrics {
    pub(super) fn register(families: &Families) -> Result<Self, Error> {
        let metrics = Self {
            begun: families.count(
                "rolling_updates_total",
                "Rolling updates of Deployments begun to apply a recommendation.",
            )?,
            refused: families.counter(
                "refused_rolling_updates_total",
                "Rolling updates that the state of the Deployment did not allow, or the API server refused, by reason.",
                &["reason"],
            )?,
        };
        metrics.start_at_zero();
        Ok(metrics)
    }

    /// Creates the series at zero: a rate needs a first value.
    fn start_at_zero(&self) {
        for reason in RollingUpdateRefusal::ALL {
            self.refused.with_label_values(&[reason.as_str()]);
        }
        self.refused.with_label_values(&[ERROR]);
    }

    /// Counts the outcome of a rolling update.
    pub(super) fn finished(&self, outcome: &ActionOutcome) {
        let reason = match outcome {
            ActionOutcome::Accepted { .. } => return self.begun.inc(),
            ActionOutcome::PodGone => return,
            ActionOutcome::RollingUpdateRefused(refusal) => refusal.as_str(),
            _ => ERROR,
        };
        self.refused.with_label_values(&[reason]).inc();
    }

    pub(super) fn stand_down(&self) {
        self.begun.reset();
        self.refused.reset();
        self.start_at_zero();
    }
}
