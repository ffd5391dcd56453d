//! Metrics of rules.

use std::time::Duration;

use prometheus::{
    Histogram, IntCounterVec, IntGauge, IntGaugeVec, Registry, register_histogram_with_registry,
    register_int_counter_vec_with_registry, register_int_gauge_vec_with_registry,
    register_int_gauge_with_registry,
};

use super::query_cache::Source;

const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 10.0];

/// Metrics of rules. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    queries: IntCounterVec,
    query_seconds: Histogram,
    answers: IntCounterVec,
    lists: IntCounterVec,
    defined: IntGaugeVec,
    config_valid: IntGauge,
}

impl Metrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, label: &str| {
            register_int_counter_vec_with_registry!(name, help, &[label], registry)
        };
        Ok(Self {
            queries: counter(
                "plimsoll_adapter_rules_queries_total",
                "Requests to Prometheus by HTTP status code.",
                "code",
            )?,
            query_seconds: register_histogram_with_registry!(
                "plimsoll_adapter_rules_query_duration_seconds",
                "Latency of requests to Prometheus in seconds.",
                BUCKETS.to_vec(),
                registry
            )?,
            answers: counter(
                "plimsoll_adapter_rules_responses_total",
                "Responses to metric requests by source of the values: store, last_good or none.",
                "source",
            )?,
            lists: counter(
                "plimsoll_adapter_rules_relists_total",
                "Listings of the series of all rules by outcome.",
                "outcome",
            )?,
            defined: register_int_gauge_vec_with_registry!(
                "plimsoll_adapter_rules_metrics",
                "Number of metrics that rules define.",
                &["api"],
                registry
            )?,
            config_valid: register_int_gauge_with_registry!(
                "plimsoll_adapter_rules_config_last_reload_successful",
                "1 if the last reload of the rule file succeeded; if 0, the previous rules are still in use.",
                registry
            )?,
        })
    }

    pub(super) fn exchanged(&self, code: Option<u16>, duration: Duration) {
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        self.queries.with_label_values(&[code.as_str()]).inc();
        self.query_seconds.observe(duration.as_secs_f64());
    }

    pub(super) fn answered(&self, source: Option<Source>) {
        let source = match source {
            Some(Source::Store) => "store",
            Some(Source::LastGood) => "last_good",
            None => "none",
        };
        self.answers.with_label_values(&[source]).inc();
    }

    pub(super) fn listed(&self, is_complete: bool) {
        self.lists
            .with_label_values(&[if is_complete { "complete" } else { "failed" }])
            .inc();
    }

    pub(super) fn set_metrics_defined(&self, custom: usize, external: usize) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (api, count) in [("custom", custom), ("external", external)] {
            self.defined.with_label_values(&[api]).set(gauge(count));
        }
    }

    pub(super) fn set_config_valid(&self, is_valid: bool) {
        self.config_valid.set(is_valid.into());
    }
}
