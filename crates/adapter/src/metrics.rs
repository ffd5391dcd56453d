//! Metrics of requests, of served values and of the adapter's `APIService` objects.

use std::time::Duration;

use axum::http::StatusCode;
use jiff::Timestamp;
use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec};

use super::request::ApiVersion;

const LATENCY_BUCKETS: [f64; 12] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0,
];
/// The buckets of `custom-metrics-apiserver`, in seconds.
const FRESHNESS_BUCKETS: [f64; 9] = [1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

pub const PREFIX: &str = "plimsoll_adapter";

runtime::metrics! {
    pub struct Metrics {
        requests: IntCounterVec { api, code } = "plimsoll_adapter_requests_total",
            "Requests by API and status code.";
        latency: HistogramVec { api } [LATENCY_BUCKETS] = "plimsoll_adapter_request_duration_seconds",
            "Latency of requests in seconds, from the end of the headers to the response, by API.";
        freshness: HistogramVec { group } [FRESHNESS_BUCKETS]
            = "metrics_apiserver_metric_freshness_seconds",
            "Age of served values in seconds by API group.";
        pub(crate) owned: IntGaugeVec { name } = "plimsoll_adapter_apiservice_owned",
            "1 if the APIService points at the adapter's Service.";
        pub(crate) foreign_changes: IntCounterVec { name }
            = "plimsoll_adapter_apiservice_external_changes_total",
            "Changes by others of an APIService that points, or pointed, at the adapter's Service.";
    }
}

impl Metrics {
    pub fn answered(&self, api: &str, code: StatusCode, took: Duration) {
        let requests = self.requests.with_label_values(&[api, code.as_str()]);
        requests.inc();
        let latency = self.latency.with_label_values(&[api]);
        latency.observe(took.as_secs_f64());
    }

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
}
