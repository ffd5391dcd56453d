//! What is measured about rules.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::answers::From;

const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 10.0];

/// All metrics of rules. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    queries: IntCounterVec,
    query_seconds: Histogram,
    answers: IntCounterVec,
    lists: IntCounterVec,
    known: IntGaugeVec,
    file_is_broken: IntGauge,
}

impl Metrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, label: &str| {
            IntCounterVec::new(Opts::new(name, help), &[label])
        };
        let metrics = Self {
            queries: counter(
                "adapter_rules_queries_total",
                "Requests to Prometheus by their HTTP status.",
                "code",
            )?,
            query_seconds: Histogram::with_opts(
                HistogramOpts::new("adapter_rules_query_seconds", "How long Prometheus takes.")
                    .buckets(BUCKETS.to_vec()),
            )?,
            answers: counter(
                "adapter_rules_answers_total",
                "Answers by where their values are from.",
                "from",
            )?,
            lists: counter(
                "adapter_rules_lists_total",
                "Lists of all series by outcome.",
                "outcome",
            )?,
            known: IntGaugeVec::new(
                Opts::new("adapter_rules_known_metrics", "Metrics that rules make."),
                &["api"],
            )?,
            file_is_broken: IntGauge::new(
                "adapter_rules_file_is_broken",
                "Whether the rule file cannot be read, so that the rules before it stand.",
            )?,
        };
        registry.register(Box::new(metrics.queries.clone()))?;
        registry.register(Box::new(metrics.query_seconds.clone()))?;
        registry.register(Box::new(metrics.answers.clone()))?;
        registry.register(Box::new(metrics.lists.clone()))?;
        registry.register(Box::new(metrics.known.clone()))?;
        registry.register(Box::new(metrics.file_is_broken.clone()))?;
        Ok(metrics)
    }

    pub(super) fn exchanged(&self, code: Option<u16>, duration: Duration) {
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        self.queries.with_label_values(&[code.as_str()]).inc();
        self.query_seconds.observe(duration.as_secs_f64());
    }

    pub(super) fn answered(&self, from: Option<From>) {
        let from = match from {
            Some(From::Store) => "store",
            Some(From::LastGood) => "last_good",
            None => "nowhere",
        };
        self.answers.with_label_values(&[from]).inc();
    }

    pub(super) fn listed(&self, is_complete: bool) {
        self.lists
            .with_label_values(&[if is_complete { "complete" } else { "failed" }])
            .inc();
    }

    pub(super) fn known(&self, custom: usize, external: usize) {
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.known.with_label_values(&["custom"]).set(gauge(custom));
        self.known
            .with_label_values(&["external"])
            .set(gauge(external));
    }

    pub(super) fn file_is_broken(&self, is_broken: bool) {
        self.file_is_broken.set(i64::from(is_broken));
    }
}
