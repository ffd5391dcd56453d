//! Metrics of the backfill. The first two names, labels and buckets are upstream's.

use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts};
use sources::prometheus::Exchange;

const BUCKETS: [f64; 21] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0,
    60.0, 120.0, 300.0,
];
const METHOD: &str = "get";

/// Metrics of the backfill. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct HistoryMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    pending: IntGauge,
    fetches: IntCounterVec,
    samples: IntCounter,
}

impl HistoryMetrics {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let durations = HistogramOpts::new(
            "vpa_recommender_prometheus_client_api_requests_duration_seconds",
            "Duration of requests to Prometheus, in seconds.",
        );
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "vpa_recommender_prometheus_client_api_requests_count",
                    "Requests to Prometheus by code and method.",
                ),
                &["code", "method"],
            )?,
            durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &["code", "method"])?,
            pending: IntGauge::new(
                "vpa_recommender_history_pending",
                "Namespaces (selectors with --memory-saver) whose history is not fetched yet.",
            )?,
            fetches: IntCounterVec::new(
                Opts::new(
                    "vpa_recommender_history_fetches_total",
                    "Attempts to fetch the history of a namespace.",
                ),
                &["result"],
            )?,
            samples: IntCounter::new(
                "vpa_recommender_history_samples_total",
                "Samples of fetched history that were added.",
            )?,
        };
        for result in ["succeeded", "failed"] {
            metrics.fetches.with_label_values(&[result]);
        }
        Ok(metrics)
    }

    pub(super) fn collectors(&self) -> [Box<dyn Collector>; 5] {
        [
            Box::new(self.requests.clone()),
            Box::new(self.durations.clone()),
            Box::new(self.pending.clone()),
            Box::new(self.fetches.clone()),
            Box::new(self.samples.clone()),
        ]
    }

    /// Records a request to Prometheus.
    pub(crate) fn exchanged(&self, Exchange { code, duration }: Exchange) {
        let code = code.map_or("<error>".to_owned(), |code| code.to_string());
        self.requests.with_label_values(&[&code, METHOD]).inc();
        self.durations
            .with_label_values(&[&code, METHOD])
            .observe(duration.as_secs_f64());
    }

    /// Sets the number of gaps.
    pub(crate) fn pending(&self, count: usize) {
        self.pending.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts an attempt to fetch a gap.
    pub(crate) fn fetched(&self, succeeded: bool) {
        self.fetches
            .with_label_values(&[if succeeded { "succeeded" } else { "failed" }])
            .inc();
    }

    /// Counts samples of history.
    pub(crate) fn samples(&self, count: u64) {
        self.samples.inc_by(count);
    }
}
