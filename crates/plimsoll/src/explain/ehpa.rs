//! The replicas of an EHPA's workload: the metrics of its HPA, observed and predicted, and why the
//! replicas do not change.

mod document;
mod judge;
mod metrics;
mod reader;
#[cfg(test)]
mod tests;

use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::prediction::TimeSeriesPrediction as Prediction;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::api::core::v1::Event;

pub(super) use document::document;
pub(super) use judge::explain;
pub(super) use metrics::forecasts;
pub(crate) use metrics::{Forecast, metric_field};
pub(super) use reader::{of_workload, read};

/// Objects that explain the replicas of an EHPA's workload.
#[derive(Clone, Debug)]
pub(super) struct EhpaFacts {
    pub(super) ehpa: Ehpa,
    /// Names of further EHPAs with the same target.
    pub(super) others: Vec<String>,
    /// The HPA that it created or adopted.
    pub(super) hpa: Option<Hpa>,
    pub(super) hpa_is_read: bool,
    pub(super) prediction: Option<Prediction>,
    /// Events about the EHPA and its HPA.
    pub(super) events: Vec<Event>,
    pub(super) now: Timestamp,
    /// Parts that could not be read, one sentence each.
    pub(super) missing: Vec<String>,
}
