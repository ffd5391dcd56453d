//! The metric of acts whose effect did not come about.

use prometheus::{Error, IntCounterVec, Registry, register_int_counter_vec_with_registry};
use rollout::{Refutation, RefutationCause, RefutedAct};

/// The counter of refuted acts. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct RefutedActs(IntCounterVec);

impl RefutedActs {
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        let counter = register_int_counter_vec_with_registry!(
            "plimsoll_updater_refuted_acts_total",
            "Resizes and evictions after which a container was OOM killed again, or whose limit is not in effect, by act and cause.",
            &["act", "cause"],
            registry
        )?;
        let metrics = Self(counter);
        metrics.start_at_zero();
        Ok(metrics)
    }

    /// Creates the series at zero: a rate needs a first value.
    fn start_at_zero(&self) {
        for act in RefutedAct::ALL {
            for cause in RefutationCause::ALL {
                self.0.with_label_values(&[act.as_str(), cause.as_str()]);
            }
        }
    }

    /// Counts a refuted act.
    pub(crate) fn add(&self, refutation: &Refutation) {
        let labels = [refutation.act.as_str(), refutation.cause.as_str()];
        self.0.with_label_values(&labels).inc();
    }

    pub(super) fn stand_down(&self) {
        self.0.reset();
        self.start_at_zero();
    }
}
