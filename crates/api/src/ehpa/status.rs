//! `status` of an EHPA.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::schema;

/// Condition of an EHPA and a prediction: the object is valid and works.
pub const READY: &str = "Ready";
/// Condition of an EHPA: `Ready` of its prediction.
pub const PREDICTION_READY: &str = "PredictionReady";

/// Condition of an EHPA: False if metrics cannot be predicted.
///
/// Present only then.
pub const METRICS_PREDICTABLE: &str = "MetricsPredictable";

/// Condition of an EHPA: whether one of its schedules is open; the message has the times of seven days;
/// see docs/horizontal.md#schedules.
///
/// Present only with schedules.
pub const SCHEDULE_ACTIVE: &str = "ScheduleActive";

/// Condition of an EHPA: False if the rule file cannot be used; see docs/rules.md.
///
/// Present only then.
pub const METRIC_RULES_USABLE: &str = "MetricRulesUsable";

/// Prediction of the EHPA's metrics.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PredictionSummary {
    /// Method of the prediction: peak (the largest sample of the coming window), own (a series of
    /// quantiles), dsp or percentile (Crane's).
    pub method: String,
    /// Length of the window in seconds, of which the largest predicted value counts. With the
    /// method peak it is the time until new pods are ready, plus five minutes.
    pub window_seconds: i32,
    /// Time from creation to readiness in seconds that nine of ten recently created pods did not
    /// exceed. Absent before one was measured, and with another method than peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_ready_seconds: Option<i32>,
}

/// Observed state of the EHPA.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveHorizontalPodAutoscalerStatus {
    /// Desired number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_replicas: Option<i32>,
    /// Current number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    /// Last time the number of replicas changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_scale_time: Option<Time>,
    /// Prediction of its metrics. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<PredictionSummary>,
    /// Amounts per pod at which replicas are added, in place of a utilization, while a
    /// VerticalPodAutoscaler of the workload has the annotation plimsoll.dev/hpa set to
    /// KeepScalePoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub scale_points: Vec<ScalePoint>,
    /// Conditions of the EHPA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Amount per pod at which replicas are added.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ScalePoint {
    /// Name of the resource.
    pub resource: String,
    /// Name of the container; absent for all containers of a pod together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Average request of the running pods when the amount was fixed.
    #[schemars(schema_with = "schema::quantity")]
    pub average_request: Quantity,
    /// Target of the HorizontalPodAutoscaler: averageUtilization percent of averageRequest.
    #[schemars(schema_with = "schema::quantity")]
    pub average_value: Quantity,
}
