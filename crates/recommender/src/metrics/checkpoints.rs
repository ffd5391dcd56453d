//! What becomes of checkpoints, and since when something known may not be stored.

use parking_lot::Mutex;
use std::sync::Arc;

use jiff::Timestamp;
use prometheus::core::{Collector, Desc};
use prometheus::{Gauge, IntCounterVec, Opts, proto::MetricFamily};

use crate::act::checkpoint::Outcome;
use crate::checkpoint::garbage::Reason;

/// Counters of what was loaded, written and collected, and the age of what was last stored.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoints {
    loaded: IntCounterVec,
    writes: IntCounterVec,
    collected: IntCounterVec,
    age: Gauge,
    oldest: Arc<Mutex<Option<Timestamp>>>,
}

impl Checkpoints {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let counter = |name, help, label| IntCounterVec::new(Opts::new(name, help), &[label]);
        let metrics = Self {
            loaded: counter(
                "vpa_recommender_checkpoints_loaded_total",
                "Checkpoints whose history was taken over, or refused.",
                "result",
            )?,
            writes: counter(
                "vpa_recommender_checkpoint_writes_total",
                "Checkpoints by what became of them when they were due.",
                "result",
            )?,
            collected: counter(
                "vpa_recommender_checkpoints_collected_total",
                "Checkpoints that were deleted because nobody needs them.",
                "reason",
            )?,
            age: Gauge::new(
                "vpa_recommender_checkpoint_oldest_seconds",
                "Seconds of which the history of some VPA object may not be stored; 0 on a stand-by.",
            )?,
            oldest: Arc::default(),
        };
        metrics.start_at_zero();
        Ok(metrics)
    }

    /// A rate needs a first value, also of what never happens.
    fn start_at_zero(&self) {
        for result in ["loaded", "refused"] {
            self.loaded.with_label_values(&[result]);
        }
        for outcome in Outcome::ALL {
            self.writes.with_label_values(&[outcome.name()]);
        }
        for reason in Reason::ALL {
            self.collected.with_label_values(&[reason.name()]);
        }
    }

    /// The history of so many checkpoints was taken over, or refused.
    pub(crate) fn loaded(&self, accepted: usize, refused: usize) {
        for (result, count) in [("loaded", accepted), ("refused", refused)] {
            self.loaded
                .with_label_values(&[result])
                .inc_by(count as u64);
        }
    }

    /// What became of one checkpoint that was due.
    pub(crate) fn written(&self, outcome: Outcome) {
        self.writes.with_label_values(&[outcome.name()]).inc();
    }

    /// One was deleted.
    pub(crate) fn collected(&self, reason: Reason) {
        self.collected.with_label_values(&[reason.name()]).inc();
    }

    /// All that was known until then is stored; none when storing is another's work.
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

impl Collector for Checkpoints {
    fn desc(&self) -> Vec<&Desc> {
        [
            self.loaded.desc(),
            self.writes.desc(),
            self.collected.desc(),
            self.age.desc(),
        ]
        .concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.age.set(self.age_seconds(Timestamp::now()));
        [
            self.loaded.collect(),
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
        let checkpoints = Checkpoints::new().expect("valid names");
        let check =
            |expected: f64| assert!((checkpoints.age_seconds(second(100)) - expected).abs() < 1e-9);
        check(0.0);
        checkpoints.stored_until(Some(second(40)));
        check(60.0);
        checkpoints.stored_until(None);
        check(0.0);
    }
}
