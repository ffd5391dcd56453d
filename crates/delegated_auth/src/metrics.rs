//! Metrics of authentication and authorization. Those that `k8s.io/apiserver` has too keep its
//! names, labels and buckets.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGauge, Registry};

use crate::coalescing_cache::Source;

const BUCKETS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

runtime::metrics! {
    pub(crate) struct Rows(prefix: &str) {
        attempts: IntCounterVec { result } = "authentication_attempts",
            "Authentication attempts by result.";
        reviews: IntCounterVec { review, source } = format!("{prefix}_reviews_total"),
            "Token and access reviews by source of their result: cache, a coalesced request, the API server, or none because of a limit.";
        pub(crate) front_proxy_configured: IntGauge = format!("{prefix}_front_proxy_configured"),
            "1 if the CA of front proxies is configured, so that requests through API aggregation can be authenticated.";
    }
}

runtime::metrics! {
    /// Metrics of one kind of request to the API server.
    pub(crate) struct RequestMetrics(kind: &str) {
        requests: IntCounterVec { code } = format!("apiserver_delegated_{kind}_request_total"),
            "Requests to the API server by status code.";
        durations: HistogramVec { code } [BUCKETS]
            = format!("apiserver_delegated_{kind}_request_duration_seconds"),
            "Latency of requests to the API server in seconds, by status code.";
    }
}

/// All metrics of the crate. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub(crate) rows: Rows,
    pub(crate) token_reviews: RequestMetrics,
    pub(crate) access_reviews: RequestMetrics,
}

impl Metrics {
    pub(crate) fn register(registry: &Registry, prefix: &str) -> Result<Self, prometheus::Error> {
        Ok(Self {
            rows: Rows::register(registry, prefix)?,
            token_reviews: RequestMetrics::register(registry, "authn")?,
            access_reviews: RequestMetrics::register(registry, "authz")?,
        })
    }

    pub(crate) fn attempted(&self, is_authenticated: bool) {
        let result = if is_authenticated {
            "success"
        } else {
            "failure"
        };
        self.rows.attempts.with_label_values(&[result]).inc();
    }

    /// Counts a review by the source of its result; `None` if a limit rejected it.
    pub(crate) fn reviewed(&self, review: &str, source: Option<Source>) {
        let source = match source {
            Some(Source::Cached) => "cache",
            Some(Source::Coalesced) => "coalesced",
            Some(Source::Fetched) => "api_server",
            None => "rejected",
        };
        let reviews = &self.rows.reviews;
        reviews.with_label_values(&[review, source]).inc();
    }
}

impl RequestMetrics {
    /// Records an attempt; `None` without a status code.
    pub(crate) fn observe(&self, code: Option<u16>, duration: Duration) {
        let code = code.map_or("<error>".to_owned(), |code| code.to_string());
        self.requests.with_label_values(&[&code]).inc();
        self.durations
            .with_label_values(&[&code])
            .observe(duration.as_secs_f64());
    }
}
