//! `EffectiveHorizontalPodAutoscaler` (EHPA) of `autoscaling.crane.io/v1alpha1`.
//!
//! Source: gocrane/api `autoscaling/v1alpha1/ehpa_types.go`. Metrics and behaviour are those of
//! `autoscaling/v2`, where Crane uses `v2beta2`, which current servers no longer have; every field
//! name is the same.

mod adoption;
mod behavior;
mod cron;
mod holidays;
mod metric;
mod status;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parse::ParseError;
use crate::prediction::Algorithm;
use crate::vpa::CrossVersionObjectReference;

pub use adoption::{ADOPT, ADOPTED_BY, Adopter, ORIGINAL_SPEC, adopted_by};
pub use behavior::{Behavior, PolicyKind, ScalingPolicy, ScalingRules, SelectPolicy};
pub use cron::CronSpec;
pub use holidays::{HOLIDAYS, HolidaysError, holidays};
pub use metric::{
    ContainerResourceSource, ExternalSource, MetricIdentifier, MetricKind, MetricSpec,
    MetricTarget, ObjectSource, PodsSource, ResourceSource, TargetKind,
};
pub use status::{
    EffectiveHorizontalPodAutoscalerStatus, METRIC_RULES_USABLE, METRICS_PREDICTABLE,
    PREDICTION_READY, PredictionSummary, READY, SCHEDULE_ACTIVE, ScalePoint,
};

/// Scaling of a workload.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "autoscaling.crane.io",
    version = "v1alpha1",
    kind = "EffectiveHorizontalPodAutoscaler",
    plural = "effectivehorizontalpodautoscalers",
    namespaced,
    shortname = "ehpa",
    status = "EffectiveHorizontalPodAutoscalerStatus",
    derive = "PartialEq",
    doc = "Scales a workload through a HorizontalPodAutoscaler, by current and predicted metrics and by cron schedules.",
    printcolumn(name = "STRATEGY", type_ = "string", json_path = ".spec.scaleStrategy"),
    printcolumn(name = "MINPODS", type_ = "integer", json_path = ".spec.minReplicas"),
    printcolumn(name = "MAXPODS", type_ = "integer", json_path = ".spec.maxReplicas"),
    printcolumn(
        name = "SPECIFICPODS",
        type_ = "integer",
        json_path = ".spec.specificReplicas"
    ),
    printcolumn(
        name = "REPLICAS",
        type_ = "integer",
        json_path = ".status.expectReplicas"
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
        "message": "minReplicas must not be above maxReplicas",
    },
    {
        "rule": "!has(self.crons) || self.crons.all(one, self.crons.exists_one(other, (has(one.name) ? one.name : '') == (has(other.name) ? other.name : '')))",
        "message": "crons must have different names",
    },
]))]
pub struct EffectiveHorizontalPodAutoscalerSpec {
    /// Workload to scale: any object with a scale subresource.
    pub scale_target_ref: CrossVersionObjectReference,

    /// Minimum number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_replicas: Option<i32>,

    /// Maximum number of replicas.
    #[schemars(range(min = 1))]
    pub max_replicas: i32,

    /// Whether the workload is scaled or only the effect is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<ScaleStrategy>,

    /// Number of replicas with the strategy Preview, independent of metrics and not limited by
    /// minReplicas and maxReplicas. No effect while another HorizontalPodAutoscaler scales the
    /// workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub specific_replicas: Option<i32>,

    /// Metrics of the HorizontalPodAutoscaler. The one that asks for most replicas wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub metrics: Vec<MetricSpec>,

    /// Schedules with a minimum number of replicas. Of several active ones the largest wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub crons: Vec<CronSpec>,

    /// Scaling behaviour of the HorizontalPodAutoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Behavior>,

    /// Prediction of metrics. Absent means no prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
}

/// Mode of scaling.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScaleStrategy {
    /// The workload is scaled.
    #[default]
    Auto,
    /// The workload is not scaled; the status shows the proposed number of replicas.
    Preview,
}

/// Prediction of metrics.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// Time to predict ahead in seconds, so that replicas are ready before the load arrives: the
    /// largest predicted value within it is used. By default it is the maximum of a window that is
    /// measured: the time until new pods are ready, plus five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 600))]
    pub prediction_window_seconds: Option<i32>,

    /// Algorithm of the prediction. Absent means no prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction_algorithm: Option<Algorithm>,
}

/// Default of `predictionWindowSeconds`.
pub const DEFAULT_PREDICTION_WINDOW_SECONDS: i32 = 3600;

impl EffectiveHorizontalPodAutoscalerSpec {
    /// Minimum number of replicas, with its default.
    pub fn effective_min_replicas(&self) -> i32 {
        self.min_replicas.unwrap_or(1)
    }

    /// Scaling strategy, with its default.
    pub fn effective_strategy(&self) -> ScaleStrategy {
        self.scale_strategy.unwrap_or_default()
    }
}

/// Parses an object. The error names the invalid field.
pub fn parse(object: serde_json::Value) -> Result<EffectiveHorizontalPodAutoscaler, ParseError> {
    crate::parse::parse(object)
}
