//! What is measured about callers. Where `k8s.io/apiserver` measures the same, names, labels and
//! buckets are its.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};

use crate::coalescing_cache::Source;

const BUCKETS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

/// All metrics about callers. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    attempts: IntCounterVec,
    answers: IntCounterVec,
    has_front_proxy: IntGauge,
    /// Questions about tokens.
    pub(crate) authn: Asked,
    /// Questions about what users may do.
    pub(crate) authz: Asked,
}

/// What is measured about questions to the API server.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    requests: IntCounterVec,
    durations: HistogramVec,
}

impl Metrics {
    /// Adds the metrics to a registry.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            attempts: IntCounterVec::new(
                Opts::new(
                    "authentication_attempts",
                    "Requests by whether their caller was recognised.",
                ),
                &["result"],
            )?,
            answers: IntCounterVec::new(
                Opts::new(
                    "adapter_access_answers_total",
                    "Questions about callers, by how the answer was had: known, joined, asked, or refused as one too many.",
                ),
                &["question", "way"],
            )?,
            has_front_proxy: IntGauge::new(
                "adapter_front_proxy_configured",
                "Whether it is known whom to believe who asks through API aggregation.",
            )?,
            authn: Asked::register(registry, "authn")?,
            authz: Asked::register(registry, "authz")?,
        };
        registry.register(Box::new(metrics.attempts.clone()))?;
        registry.register(Box::new(metrics.answers.clone()))?;
        registry.register(Box::new(metrics.has_front_proxy.clone()))?;
        Ok(metrics)
    }

    /// A caller was recognised, or nobody in particular, or neither.
    pub(crate) fn attempted(&self, result: &str) {
        self.attempts.with_label_values(&[result]).inc();
    }

    /// An answer was had in this way, or none.
    pub(crate) fn answered(&self, question: &str, way: Option<Source>) {
        let way = match way {
            Some(Source::Cached) => "known",
            Some(Source::Coalesced) => "joined",
            Some(Source::Fetched) => "asked",
            None => "refused",
        };
        self.answers.with_label_values(&[question, way]).inc();
    }

    pub(crate) fn has_front_proxy(&self, has: bool) {
        self.has_front_proxy.set(has.into());
    }
}

impl Asked {
    fn register(registry: &Registry, what: &str) -> Result<Self, prometheus::Error> {
        let requests = Opts::new(
            format!("apiserver_delegated_{what}_request_total"),
            "Questions to the API server about callers, by code.",
        );
        let durations = HistogramOpts::new(
            format!("apiserver_delegated_{what}_request_duration_seconds"),
            "Time until the API server's answer, by code.",
        );
        let asked = Self {
            requests: IntCounterVec::new(requests, &["code"])?,
            durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &["code"])?,
        };
        registry.register(Box::new(asked.requests.clone()))?;
        registry.register(Box::new(asked.durations.clone()))?;
        Ok(asked)
    }

    /// An answer, by its code if it has one.
    pub(crate) fn observe(&self, code: Option<u16>, took: Duration) {
        let code = code.map_or("<error>".to_owned(), |code| code.to_string());
        self.requests.with_label_values(&[&code]).inc();
        self.durations
            .with_label_values(&[&code])
            .observe(took.as_secs_f64());
    }
}
