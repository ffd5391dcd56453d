//! `status` of an `EffectiveHorizontalPodAutoscaler`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::schema;

/// Type of the condition that everything which the object asks for is there.
pub const READY: &str = "Ready";
/// Type of the condition that metrics are predicted.
pub const PREDICTION_READY: &str = "PredictionReady";

/// Type of the condition that all metrics can be predicted that should be. It is there only where
/// some cannot.
pub const METRICS_PREDICTABLE: &str = "MetricsPredictable";

/// Type of the condition that the rules for the history of metrics can be used. It is there only
/// where they cannot.
pub const METRIC_RULES_USABLE: &str = "MetricRulesUsable";

/// What became of the object.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveHorizontalPodAutoscalerStatus {
    /// How many replicas there should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_replicas: Option<i32>,
    /// How many there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    /// When the count was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_scale_time: Option<Time>,
    /// What holds for the object at present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
