//! Metrics of the checkpoints: writes, deletions, and the age of the stored checkpoints.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prometheus::core::{Collector, Desc};
use prometheus::{Gauge, IntCounterVec, Opts, proto::MetricFamily};
use vertical::checkpoint::garbage::UnusedReason;

use super::steps::StepLatency;
use crate::outcome::CheckpointOutcome;

/// Counters of checkpoints that were written and deleted, and the age of the last stored one.
#[derive(Debug, Clone)]
pub(crate) struct CheckpointMetrics {
    steps: StepLatency,
    writes: IntCounterVec,
    collected: IntCounterVec,
    age: Gauge,
    oldest: Arc<Mutex<Option<Timestamp>>>,
}

impl CheckpointMetrics {
    pub(super) fn new(steps: StepLatency) -> Result<Self, prometheus::Error> {
        let counter = |name, help, label| IntCounterVec::new(Opts::new(name, help), &[label]);
        let metrics = Self {
            steps,
            writes: counter(
                "vpa_recommender_checkpoint_writes_total",
                "Checkpoints that were due, by result.",
                "result",
            )?,
            collected: counter(
                "vpa_recommender_checkpoints_collected_total",
                "Checkpoints that were deleted because they are unused, by reason.",
                "reason",
            )?,
            age: Gauge::new(
                "vpa_recommender_checkpoint_oldest_seconds",
                "Seconds since the least recently stored VPA object was stored; 0 on a standby.",
            )?,
            oldest: Arc::default(),
        };
        metrics.start_at_zero();
        Ok(metrics)
    }

    /// Creates every series: a rate needs a first value, also for outcomes that never happen.
    fn start_at_zero(&self) {
        for outcome in CheckpointOutcome::ALL {
            self.writes.with_label_values(&[outcome.name()]);
        }
        for reason in UnusedReason::ALL {
            self.collected.with_label_values(&[reason.name()]);
        }
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

impl Collector for CheckpointMetrics {
    fn desc(&self) -> Vec<&Desc> {
        [self.writes.desc(), self.collected.desc(), self.age.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.age.set(self.age_seconds(Timestamp::now()));
        [
            self.writes.collect(),
            self.collected.collect(),
            self.age.collect(),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_counts_from_what_was_stored_last_and_a_stand_by_has_none() {
        let second = |second| Timestamp::from_second(second).expect("in range");
        let checkpoints =
            CheckpointMetrics::new(StepLatency::new().expect("valid names")).expect("valid names");
        let check =
            |expected: f64| assert!((checkpoints.age_seconds(second(100)) - expected).abs() < 1e-9);
        check(0.0);
        checkpoints.stored_until(Some(second(40)));
        check(60.0);
        checkpoints.stored_until(None);
        check(0.0);
    }
}
