//! Metrics of stored history: writes, deletions and age of the checkpoints, and the backfill. The first
//! two names of the backfill, their labels and buckets are upstream's.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus::{Gauge, HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};
use runtime::StepLatency;
use runtime::metrics::register_on_scrape;
use sources::prometheus::{Exchange, Observer};
use vertical::checkpoint::garbage::UnusedReason;

use crate::checkpoint_writer::CheckpointOutcome;

runtime::metrics! {
    struct Rows {
        writes: IntCounterVec { result: CheckpointOutcome::ALL.map(CheckpointOutcome::name) }
            = "vpa_recommender_checkpoint_writes_total",
            "Checkpoints that were due, by result.";
        collected: IntCounterVec { reason: UnusedReason::ALL.map(UnusedReason::name) }
            = "vpa_recommender_checkpoints_collected_total",
            "Checkpoints that were deleted because they are unused, by reason.";
    }
}

runtime::metrics! {
    struct Age {
        oldest: Gauge = "vpa_recommender_checkpoint_oldest_seconds",
            "Seconds since the least recently stored VPA object was stored; 0 on a standby.";
    }
}

/// Counters of checkpoints that were written and deleted, and the age of the last stored one.
#[derive(Debug, Clone)]
pub(crate) struct CheckpointMetrics {
    steps: StepLatency,
    rows: Rows,
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
            rows: Rows::register(registry)?,
            oldest: Arc::default(),
        };
        let (age, shown) = (Age::new()?, metrics.clone());
        register_on_scrape(registry, age.collectors(), move || {
            age.oldest.set(shown.age_seconds(Timestamp::now()));
        })?;
        Ok(metrics)
    }

    /// Records the duration of a look at all VPA objects.
    pub(crate) fn maintained(&self, duration: Duration) {
        self.steps.observe("MaintainCheckpoints", duration);
    }

    pub(crate) fn written(&self, outcome: CheckpointOutcome) {
        self.rows.writes.with_label_values(&[outcome.name()]).inc();
    }

    pub(crate) fn collected(&self, reason: UnusedReason) {
        let collected = &self.rows.collected;
        collected.with_label_values(&[reason.name()]).inc();
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

const BUCKETS: [f64; 21] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0,
    60.0, 120.0, 300.0,
];
const METHOD: &str = "get";

runtime::metrics! {
    pub(crate) struct HistoryMetrics {
        requests: IntCounterVec { code, method }
            = "vpa_recommender_prometheus_client_api_requests_count",
            "Requests to Prometheus by code and method.";
        durations: HistogramVec { code, method } [BUCKETS]
            = "vpa_recommender_prometheus_client_api_requests_duration_seconds",
            "Duration of requests to Prometheus, in seconds.";
        pub(crate) pending: IntGauge = "vpa_recommender_history_pending",
            "Namespaces (selectors with --memory-saver) whose history is not fetched yet.";
        fetches: IntCounterVec { result: ["succeeded", "failed"] }
            = "vpa_recommender_history_fetches_total",
            "Attempts to fetch the history of a namespace.";
        pub(crate) samples: IntCounter = "vpa_recommender_history_samples_total",
            "Samples of fetched history that were added.";
    }
}

impl HistoryMetrics {
    /// Records every request to Prometheus.
    pub(crate) fn observer(&self) -> Observer {
        let metrics = self.clone();
        Arc::new(move |exchange| metrics.exchanged(exchange))
    }

    pub(super) fn exchanged(&self, Exchange { code, duration }: Exchange) {
        let code = code.map_or("<error>".to_owned(), |code| code.to_string());
        self.requests.with_label_values(&[&code, METHOD]).inc();
        self.durations
            .with_label_values(&[&code, METHOD])
            .observe(duration.as_secs_f64());
    }

    pub(crate) fn fetched(&self, succeeded: bool) {
        self.fetches
            .with_label_values(&[if succeeded { "succeeded" } else { "failed" }])
            .inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_counts_from_what_was_stored_last_and_a_stand_by_has_none() {
        let second = |second| Timestamp::from_second(second).expect("in range");
        let registry = Registry::new();
        let steps = super::super::StepMetrics::new().expect("valid names").steps;
        let checkpoints = CheckpointMetrics::register(&registry, steps).expect("valid names");
        for (stored, expected) in [(None, 0.0), (Some(40), 60.0), (None, 0.0)] {
            checkpoints.stored_until(stored.map(second));
            let age = checkpoints.age_seconds(second(100));
            assert!((age - expected).abs() < 1e-9, "{stored:?}: {age}");
        }
    }
}
