//! `TimeSeriesPrediction` of `prediction.crane.io/v1alpha1`: predicted metrics of a workload or
//! node.
//!
//! Source: gocrane/api `prediction/v1alpha1/types.go`.

mod algorithm;
mod query;
mod status;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parse::ParseError;

pub use algorithm::{
    Algorithm, AlgorithmKind, Dsp, Estimators, Fft, Histogram, MaxValue, Percentile,
};
pub use query::{
    ExpressionQuery, LabelQuery, MetricQuery, PredictionMetric, QueryKind, QueryOperator,
};
pub use status::{
    HISTORY_READ, MetricPrediction, PREDICTION_ACCURATE, PredictedSample, PredictedSeries,
    SeriesLabel, TimeSeriesPredictionStatus,
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

/// Parses an object. The error names the invalid field.
pub fn parse(object: serde_json::Value) -> Result<TimeSeriesPrediction, ParseError> {
    crate::parse::parse(object)
}
