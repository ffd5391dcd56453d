//! `TimeSeriesPrediction` of `prediction.crane.io/v1alpha1`: predicted metrics of a workload or
//! node.
//!
//! Source: gocrane/api `prediction/v1alpha1/types.go`.

mod algorithm;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::parse::ParseError;

pub use algorithm::{
    Algorithm, AlgorithmKind, Dsp, Estimators, Fft, Histogram, MaxValue, Percentile,
};

/// Annotation that users set on a prediction and an EHPA: name of the recommender in charge; see
/// docs/horizontal.md#objects-of-an-ehpa.
///
/// Default: `default`.
pub const RECOMMENDER_ANNOTATION: &str = "plimsoll.dev/recommender";

/// Metrics to predict.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "prediction.crane.io",
    version = "v1alpha1",
    kind = "TimeSeriesPrediction",
    plural = "timeseriespredictions",
    namespaced,
    shortname = "tsp",
    status = "TimeSeriesPredictionStatus",
    derive = "PartialEq",
    doc = "Predicts metrics of a workload or node from their history.",
    printcolumn(
        name = "TargetRefName",
        type_ = "string",
        json_path = ".spec.targetRef.name"
    ),
    printcolumn(
        name = "TargetRefKind",
        type_ = "string",
        json_path = ".spec.targetRef.kind"
    ),
    printcolumn(
        name = "PredictionWindowSeconds",
        type_ = "integer",
        json_path = ".spec.predictionWindowSeconds"
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct TimeSeriesPredictionSpec {
    /// Metrics to predict.
    #[schemars(length(min = 1, max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["resourceIdentifier"]))]
    pub prediction_metrics: Vec<PredictionMetric>,

    /// Target of the metrics: a workload or a Node.
    pub target_ref: ObjectReference,

    /// Time to predict ahead in seconds.
    #[schemars(range(min = 600))]
    pub prediction_window_seconds: i32,
}

/// Maximum of `predictionWindowSeconds`: periods are at most a week.
pub const LONGEST_WINDOW_SECONDS: i32 = 7 * 86_400;

impl TimeSeriesPredictionSpec {
    /// Time to predict ahead, limited to the supported range.
    pub fn effective_window_seconds(&self) -> i32 {
        self.prediction_window_seconds
            .clamp(1, LONGEST_WINDOW_SECONDS)
    }
}

/// Reference to an object of any kind in any namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ObjectReference {
    /// Group and version of the object, such as apps/v1.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Kind of the object, such as Deployment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace of the object. Absent means the one of the prediction.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
    /// UID of the object. Not used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Version of the object. Not used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Part of the object. Not used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

/// Metric to predict.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.type == 'ResourceQuery' ? has(self.resourceQuery) : self.type == 'MetricQuery' ? has(self.metricQuery) : has(self.expressionQuery)",
        "message": "a metric has the query that its type names",
    },
]))]
pub struct PredictionMetric {
    /// Name of the metric within the object, such as resource.cpu.
    #[schemars(length(min = 1, max = 1024))]
    pub resource_identifier: String,
    /// Type of the query for its history.
    #[serde(rename = "type")]
    pub kind: QueryKind,
    /// CPU or memory of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_query: Option<String>,
    /// A metric selected by name and labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_query: Option<MetricQuery>,
    /// A PromQL expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression_query: Option<ExpressionQuery>,
    /// Prediction algorithm.
    #[serde(default)]
    pub algorithm: Algorithm,
}

/// Type of a query for a metric's history.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryKind {
    /// CPU or memory of the target.
    ResourceQuery,
    /// A metric selected by name and labels.
    MetricQuery,
    /// A PromQL expression.
    ExpressionQuery,
}

/// A metric selected by name and labels.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MetricQuery {
    /// Name of the metric.
    pub metric_name: String,
    /// Label matchers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelQuery>,
}

/// Label matcher.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct LabelQuery {
    /// Name of the label.
    pub key: String,
    /// Comparison of the label's value.
    pub operator: QueryOperator,
    /// The value, or with In the values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// Comparison of a label's value.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryOperator {
    /// Equal to the value.
    #[serde(rename = "=")]
    Equal,
    /// Not equal to the value.
    #[serde(rename = "!=")]
    NotEqual,
    /// Matches the regular expression.
    #[serde(rename = "=~")]
    Matches,
    /// Does not match the regular expression.
    #[serde(rename = "!~")]
    MatchesNot,
    /// One of several values.
    #[serde(rename = "in")]
    In,
}

/// A PromQL expression.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpressionQuery {
    /// The expression.
    pub expression: String,
}

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

/// Parses an object. The error names the invalid field.
pub fn parse(object: serde_json::Value) -> Result<TimeSeriesPrediction, ParseError> {
    crate::parse::parse(object)
}
