//! Metrics of the backfill. The first two names, labels and buckets are upstream's.

use std::sync::Arc;

use prometheus::{
    HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry,
    register_histogram_vec_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_with_registry,
};
use sources::prometheus::{Exchange, Observer};

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
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            requests: register_int_counter_vec_with_registry!(
                "vpa_recommender_prometheus_client_api_requests_count",
                "Requests to Prometheus by code and method.",
                &["code", "method"],
                registry,
            )?,
            durations: register_histogram_vec_with_registry!(
                "vpa_recommender_prometheus_client_api_requests_duration_seconds",
                "Duration of requests to Prometheus, in seconds.",
                &["code", "method"],
                BUCKETS.to_vec(),
                registry,
            )?,
            pending: register_int_gauge_with_registry!(
                "vpa_recommender_history_pending",
                "Namespaces (selectors with --memory-saver) whose history is not fetched yet.",
                registry,
            )?,
            fetches: register_int_counter_vec_with_registry!(
                "vpa_recommender_history_fetches_total",
                "Attempts to fetch the history of a namespace.",
                &["result"],
                registry,
            )?,
            samples: register_int_counter_with_registry!(
                "vpa_recommender_history_samples_total",
                "Samples of fetched history that were added.",
                registry,
            )?,
        };
        for result in ["succeeded", "failed"] {
            metrics.fetches.with_label_values(&[result]);
        }
        Ok(metrics)
    }

    /// Records every request to Prometheus.
    pub(crate) fn observer(&self) -> Observer {
        let metrics = self.clone();
        Arc::new(move |exchange| metrics.exchanged(exchange))
    }

    /// Records a request to Prometheus.
    pub(super) fn exchanged(&self, Exchange { code, duration }: Exchange) {
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
