//! Metrics of the backfill. The first two names, labels and buckets are upstream's.

use std::sync::Arc;

use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge};
use sources::prometheus::{Exchange, Observer};

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
