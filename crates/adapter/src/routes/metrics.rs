//! Metrics of forwarded requests.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec};

/// Latency buckets in seconds; a request waits at most 1.8 s.
const BUCKETS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0];

runtime::metrics! {
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
        pub(super) config_valid: IntGauge = "plimsoll_adapter_routes_config_last_reload_successful",
            "1 if the last reload of the routes file succeeded; if 0, the previous routes are still in use.";
        pub(super) config_hash: IntGauge = "plimsoll_adapter_routes_config_hash",
            "Hash of the routes file in use. Replicas with the same routes have the same.";
    }
}

impl Metrics {
    pub(super) fn forwarded(&self, route: &str, upstream: &str, outcome: &str, took: Duration) {
        let labels = [route, upstream, outcome];
        self.requests.with_label_values(&labels).inc();
        let durations = self.durations.with_label_values(&[route]);
        durations.observe(took.as_secs_f64());
    }

    pub(super) fn set_circuit_open(&self, upstream: &str, is_open: bool) {
        let circuit_open = self.circuit_open.with_label_values(&[upstream]);
        circuit_open.set(is_open.into());
    }

    /// Removes the metric of an upstream that is gone or has no valid client.
    pub(super) fn remove_circuit(&self, upstream: &str) {
        // The error means that there was none.
        drop(self.circuit_open.remove_label_values(&[upstream]));
    }

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
}
