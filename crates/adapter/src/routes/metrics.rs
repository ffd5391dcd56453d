//! Metrics of forwarded requests.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec};

/// Latency buckets in seconds; a request waits at most 1.8 s.
const BUCKETS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0];

runtime::metrics! {
    /// Metrics of routes. Clones share them.
    pub(super) struct Metrics {
        requests: IntCounterVec { route, upstream, outcome } = "plimsoll_adapter_route_requests_total",
            "Requests forwarded to upstream providers by outcome: answered, stale, not_found, failed or loop.";
        durations: HistogramVec { route } [BUCKETS]
            = "plimsoll_adapter_route_request_duration_seconds",
            "Latency of requests to upstream providers in seconds.";
        circuit_open: IntGaugeVec { upstream } = "plimsoll_adapter_upstream_circuit_open",
            "1 while the circuit of an upstream provider is open after repeated failures.";
        certificates_read: IntGaugeVec { upstream }
            = "plimsoll_adapter_upstream_certificates_last_read_successful",
            "1 if the Secret or ConfigMap with the certificates of an upstream provider could be read; if 0, the last valid ones are still in use.";
        config_valid: IntGauge = "plimsoll_adapter_routes_config_last_reload_successful",
            "1 if the last reload of the routes file succeeded; if 0, the previous routes are still in use.";
        config_hash: IntGauge = "plimsoll_adapter_routes_config_hash",
            "Hash of the routes file in use. Replicas with the same routes have the same.";
    }
}

/// The outcome of a forwarded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The provider responded.
    Answered,
    /// The last known response replaced a missing one.
    Stale,
    /// The metric does not exist.
    NotFound,
    /// There was no response.
    Failed,
    /// The request had passed this adapter before.
    Loop,
}

impl Metrics {
    /// Records a forwarded request.
    pub(super) fn forwarded(&self, route: &str, upstream: &str, outcome: Outcome, took: Duration) {
        let outcome = match outcome {
            Outcome::Answered => "answered",
            Outcome::Stale => "stale",
            Outcome::NotFound => "not_found",
            Outcome::Failed => "failed",
            Outcome::Loop => "loop",
        };
        self.requests
            .with_label_values(&[route, upstream, outcome])
            .inc();
        self.durations
            .with_label_values(&[route])
            .observe(took.as_secs_f64());
    }

    pub(super) fn set_circuit_open(&self, upstream: &str, is_open: bool) {
        self.circuit_open
            .with_label_values(&[upstream])
            .set(is_open.into());
    }

    /// Removes the metric of an upstream that is gone or has no valid client.
    pub(super) fn remove_circuit(&self, upstream: &str) {
        // The error means that there was none.
        drop(self.circuit_open.remove_label_values(&[upstream]));
    }

    /// Removes the metrics of an upstream that is gone.
    pub(super) fn remove_upstream(&self, upstream: &str) {
        self.remove_circuit(upstream);
        self.set_certificates_read(upstream, None);
    }

    /// Records whether the objects with an upstream's certificates could be read. `None`: it has
    /// none.
    pub(super) fn set_certificates_read(&self, upstream: &str, is_read: Option<bool>) {
        let gauge = &self.certificates_read;
        match is_read {
            Some(is_read) => gauge.with_label_values(&[upstream]).set(is_read.into()),
            // The error means that there was none.
            None => drop(gauge.remove_label_values(&[upstream])),
        }
    }

    pub(super) fn set_config_hash(&self, hash: i64) {
        self.config_hash.set(hash);
    }

    pub(super) fn set_config_valid(&self, is_valid: bool) {
        self.config_valid.set(is_valid.into());
    }
}
