//! Metrics of requests, of served values and of the adapter's `APIService` objects.

use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec};

use crate::api_version::ApiVersion;

const LATENCY_BUCKETS: [f64; 12] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0,
];
/// The buckets of `custom-metrics-apiserver`, in seconds.
const FRESHNESS_BUCKETS: [f64; 9] = [1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// The prefix of the adapter's own metrics.
pub const PREFIX: &str = "plimsoll_adapter";

/// The API of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `custom.metrics.k8s.io`.
    Custom,
    /// `external.metrics.k8s.io`.
    External,
    /// Discovery and `OpenAPI`.
    Discovery,
    /// None, such as health checks.
    None,
}

impl Api {
    fn label(self) -> &'static str {
        match self {
            Self::Custom => "custom",
            Self::External => "external",
            Self::Discovery => "discovery",
            Self::None => "none",
        }
    }
}

runtime::metrics! {
    /// All metrics of the adapter. Clones share them.
    pub struct Metrics {
        requests: IntCounterVec { api, code } = "plimsoll_adapter_requests_total",
            "Requests by API and status code.";
        latency: HistogramVec { api } [LATENCY_BUCKETS] = "plimsoll_adapter_request_duration_seconds",
            "Latency of requests in seconds, from the end of the headers to the response, by API.";
        freshness: HistogramVec { group } [FRESHNESS_BUCKETS]
            = "metrics_apiserver_metric_freshness_seconds",
            "Age of served values in seconds by API group.";
        leads_here: IntGaugeVec { name } = "plimsoll_adapter_apiservice_owned",
            "1 if the APIService points at the adapter's Service.";
        foreign_changes: IntCounterVec { name }
            = "plimsoll_adapter_apiservice_external_changes_total",
            "Changes by others of an APIService that points, or pointed, at the adapter's Service.";
    }
}

impl Metrics {
    /// Records a response and its latency.
    pub fn answered(&self, api: Api, code: StatusCode, took: Duration) {
        self.requests
            .with_label_values(&[api.label(), code.as_str()])
            .inc();
        self.latency
            .with_label_values(&[api.label()])
            .observe(took.as_secs_f64());
    }

    /// Records the age of served values.
    pub fn served(
        &self,
        version: ApiVersion,
        times: impl Iterator<Item = Timestamp>,
        now: Timestamp,
    ) {
        let freshness = self.freshness.with_label_values(&[version.group()]);
        for at in times {
            freshness.observe(now.duration_since(at).as_secs_f64().max(0.0));
        }
    }

    /// Records whether an `APIService` points at the adapter.
    pub fn leads_here(&self, name: &str, leads_here: bool) {
        self.leads_here
            .with_label_values(&[name])
            .set(leads_here.into());
    }

    /// Counts a change of an `APIService` by another client.
    pub fn count_foreign_change(&self, name: &str) {
        self.foreign_changes.with_label_values(&[name]).inc();
    }
}
