//! `status` of a `TimeSeriesPrediction`: what was predicted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// Type of the condition that the history of every metric could be read.
pub const HISTORY_READ: &str = "HistoryRead";

/// What was predicted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TimeSeriesPredictionStatus {
    /// The metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prediction_metrics: Vec<MetricPrediction>,
    /// What holds for the object at present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// What was predicted of one metric.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MetricPrediction {
    /// Name of the metric among those of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_identifier: String,
    /// Whether the whole window is predicted.
    pub ready: bool,
    /// Its series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prediction: Vec<PredictedSeries>,
}

/// What was predicted of one series.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct PredictedSeries {
    /// Its labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<SeriesLabel>,
    /// Its values, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<PredictedSample>,
}

/// A label of a series.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesLabel {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// A value of a series.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct PredictedSample {
    /// The value, with five decimals.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Seconds since 1970.
    #[serde(default)]
    pub timestamp: i64,
}
