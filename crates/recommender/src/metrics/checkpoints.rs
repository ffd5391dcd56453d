//! Metrics of the checkpoints: writes, deletions, and the age of the stored checkpoints.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::{IntCounterVec, Registry, register_int_counter_vec_with_registry};
use vertical::checkpoint::garbage::UnusedReason;

use super::computed;
use crate::checkpoint_writer::CheckpointOutcome;
use runtime::StepLatency;

/// Counters of checkpoints that were written and deleted, and the age of the last stored one.
#[derive(Debug, Clone)]
pub(crate) struct CheckpointMetrics {
    steps: StepLatency,
    writes: IntCounterVec,
    collected: IntCounterVec,
    /// Time until which everything is stored; `None` on a standby.
    oldest: Arc<Mutex<Option<Timestamp>>>,
}

impl CheckpointMetrics {
    pub(super) fn register(
        registry: &Registry,
        steps: StepLatency,
    ) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            steps,
            writes: register_int_counter_vec_with_registry!(
                "vpa_recommender_checkpoint_writes_total",
                "Checkpoints that were due, by result.",
                &["result"],
                registry,
            )?,
            collected: register_int_counter_vec_with_registry!(
                "vpa_recommender_checkpoints_collected_total",
                "Checkpoints that were deleted because they are unused, by reason.",
                &["reason"],
                registry,
            )?,
            oldest: Arc::default(),
        };
        let shown = metrics.clone();
        computed::register(
            registry,
            "vpa_recommender_checkpoint_oldest_seconds",
            "Seconds since the least recently stored VPA object was stored; 0 on a standby.",
            move || shown.age_seconds(Timestamp::now()),
        )?;
        // A rate needs a first value, also for outcomes that never happen.
        for outcome in CheckpointOutcome::ALL {
            metrics.writes.with_label_values(&[outcome.name()]);
        }
        for reason in UnusedReason::ALL {
            metrics.collected.with_label_values(&[reason.name()]);
        }
        Ok(metrics)
    }

    /// Records the duration of a look at all VPA objects.
    pub(crate) fn maintained(&self, duration: Duration) {
        self.steps.observe("MaintainCheckpoints", duration);
    }

    /// Counts a checkpoint that was due.
    pub(crate) fn written(&self, outcome: CheckpointOutcome) {
        self.writes.with_label_values(&[outcome.name()]).inc();
    }

    /// Counts a deleted checkpoint.
    pub(crate) fn collected(&self, reason: UnusedReason) {
        self.collected.with_label_values(&[reason.name()]).inc();
    }

    /// Sets the time until which everything is stored; `None` on a standby.
    pub(crate) fn stored_until(&self, time: Option<Timestamp>) {
        *self.oldest.lock() = time;
    }

    fn age_seconds(&self, now: Timestamp) -> f64 {
        let oldest = *self.oldest.lock();
        oldest.map_or(0.0, |oldest| {
            now.duration_since(oldest).as_secs_f64().max(0.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_counts_from_what_was_stored_last_and_a_stand_by_has_none() {
        let second = |second| Timestamp::from_second(second).expect("in range");
        let registry = Registry::new();
        let steps = StepLatency::register(&registry, "steps").expect("valid names");
        let checkpoints = CheckpointMetrics::register(&registry, steps).expect("valid names");
        for (stored, expected) in [(None, 0.0), (Some(40), 60.0), (None, 0.0)] {
            checkpoints.stored_until(stored.map(second));
            let age = checkpoints.age_seconds(second(100));
            assert!((age - expected).abs() < 1e-9, "{stored:?}: {age}");
        }
    }
}
