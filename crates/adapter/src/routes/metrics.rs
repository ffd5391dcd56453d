//! What is measured about questions that are left to other providers.

use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// The deadline is 1.8 s.
const BUCKETS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0];

/// All metrics about routes. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    circuit_open: IntGaugeVec,
    config_valid: IntGauge,
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was answered.
    Answered,
    /// It was answered with what was said before.
    Stale,
    /// There is no such metric.
    NotFound,
    /// There was no answer.
    Failed,
    /// It had been here before.
    Loop,
}

impl Metrics {
    /// Adds the metrics to a registry.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let durations = HistogramOpts::new(
            "plimsoll_adapter_route_request_duration_seconds",
            "Latency of requests to upstream providers in seconds.",
        );
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "plimsoll_adapter_route_requests_total",
                    "Requests forwarded to upstream providers by outcome: answered, stale, not_found, failed or loop.",
                ),
                &["route", "upstream", "outcome"],
            )?,
            durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &["route"])?,
            circuit_open: IntGaugeVec::new(
                Opts::new(
                    "plimsoll_adapter_upstream_circuit_open",
                    "1 while an upstream provider is not asked because of repeated failures.",
                ),
                &["upstream"],
            )?,
            config_valid: IntGauge::new(
                "plimsoll_adapter_routes_config_last_reload_successful",
                "1 if the last reload of the routes file succeeded; if 0, the previous routes are still in use.",
            )?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        registry.register(Box::new(metrics.circuit_open.clone()))?;
        registry.register(Box::new(metrics.config_valid.clone()))?;
        Ok(metrics)
    }

    /// A question was dealt with.
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

    /// Whether another provider, which could be, is not asked.
    pub(super) fn set_circuit_open(&self, upstream: &str, is_open: bool) {
        self.circuit_open
            .with_label_values(&[upstream])
            .set(is_open.into());
    }

    /// Another provider is not there any more, or cannot be asked.
    pub(super) fn remove_upstream(&self, upstream: &str) {
        // An error says that it was not there.
        drop(self.circuit_open.remove_label_values(&[upstream]));
    }

    /// Whether the present file is in use.
    pub(super) fn set_config_valid(&self, is_valid: bool) {
        self.config_valid.set(is_valid.into());
    }
}
