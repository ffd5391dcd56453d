//! Metrics of rules.

use std::time::Duration;

use prometheus::{Histogram, IntCounterVec, IntGauge};

use super::query_cache::Source;

const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 10.0];

runtime::metrics! {
    pub(super) struct Metrics {
        queries: IntCounterVec { code } = "plimsoll_adapter_rules_queries_total",
            "Requests to Prometheus by HTTP status code.";
        query_seconds: Histogram [BUCKETS] = "plimsoll_adapter_rules_query_duration_seconds",
            "Latency of requests to Prometheus in seconds.";
        answers: IntCounterVec { source } = "plimsoll_adapter_rules_responses_total",
            "Responses to metric requests by source of the values: store, last_good or none.";
        pub(super) config_valid: IntGauge = "plimsoll_adapter_rules_config_last_reload_successful",
            "1 if the last reload of the rule file succeeded; if 0, the previous rules are still in use.";
    }
}

impl Metrics {
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
}
