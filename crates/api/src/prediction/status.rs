//! `status` of a `TimeSeriesPrediction`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// Condition of a prediction: the history of every metric was read.
pub const HISTORY_READ: &str = "HistoryRead";

/// Condition of an EHPA and a prediction: False while a simple method replaces the forecast; see
/// docs/predictions.md#methods.
///
/// False if that was clearly better over a day. Present only if the accuracy is known.
pub const PREDICTION_ACCURATE: &str = "PredictionAccurate";

/// Predicted metrics.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TimeSeriesPredictionStatus {
    /// Predicted metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prediction_metrics: Vec<MetricPrediction>,
    /// Conditions of the prediction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Prediction of one metric.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MetricPrediction {
    /// Name of the metric within the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_identifier: String,
    /// Whether the prediction covers the whole window.
    pub ready: bool,
    /// Predicted series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prediction: Vec<PredictedSeries>,
}

/// Prediction of one series.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct PredictedSeries {
    /// Labels of the series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<SeriesLabel>,
    /// Predicted values in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<PredictedSample>,
}

/// Label of a series.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesLabel {
    /// Name of the label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Value of the label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// Predicted value of a series.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct PredictedSample {
    /// Value with five decimals.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Time in seconds since 1970.
    #[serde(default)]
    pub timestamp: i64,
}
