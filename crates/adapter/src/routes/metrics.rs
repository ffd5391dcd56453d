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
    resting: IntGaugeVec,
    is_file_used: IntGauge,
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
            "adapter_route_duration_seconds",
            "Time until the answer of another provider.",
        );
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "adapter_route_requests_total",
                    "Questions left to other providers, by what became of them: answered, stale, not_found, failed, loop.",
                ),
                &["route", "upstream", "outcome"],
            )?,
            durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &["route"])?,
            resting: IntGaugeVec::new(
                Opts::new(
                    "adapter_upstream_resting",
                    "Whether another provider, which could be asked, is not because it failed too often.",
                ),
                &["upstream"],
            )?,
            is_file_used: IntGauge::new(
                "adapter_routes_file_used",
                "Whether the present file of routes is in use.",
            )?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        registry.register(Box::new(metrics.resting.clone()))?;
        registry.register(Box::new(metrics.is_file_used.clone()))?;
        Ok(metrics)
    }

    /// A question was dealt with.
    pub(super) fn asked(&self, route: &str, upstream: &str, outcome: Outcome, took: Duration) {
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
    pub(super) fn rests(&self, upstream: &str, rests: bool) {
        self.resting
            .with_label_values(&[upstream])
            .set(rests.into());
    }

    /// Another provider is not there any more, or cannot be asked.
    pub(super) fn forget(&self, upstream: &str) {
        // An error says that it was not there.
        drop(self.resting.remove_label_values(&[upstream]));
    }

    /// Whether the present file is in use.
    pub(super) fn file_used(&self, is_used: bool) {
        self.is_file_used.set(is_used.into());
    }
}
