//! `EffectiveHorizontalPodAutoscaler` of `autoscaling.crane.io/v1alpha1`.
//!
//! Source: gocrane/api `autoscaling/v1alpha1/ehpa_types.go`. Metrics and behaviour are those of
//! `autoscaling/v2`, where Crane has `v2beta2`, which current servers no longer have; every field
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
    PREDICTION_READY, READY,
};

/// How a workload is scaled.
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
    doc = "Scales a workload by a HorizontalPodAutoscaler that it makes, by what its metrics are expected to be, and by the clock.",
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
    /// The workload that is scaled: any object with a scale subresource.
    pub scale_target_ref: CrossVersionObjectReference,

    /// The least that it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_replicas: Option<i32>,

    /// The most that it may have.
    #[schemars(range(min = 1))]
    pub max_replicas: i32,

    /// Whether the workload is really scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<ScaleStrategy>,

    /// With the strategy Preview: the number of replicas, whatever the metrics say. It is not held
    /// to the bounds, and has no effect while another HorizontalPodAutoscaler scales the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub specific_replicas: Option<i32>,

    /// What the workload is scaled by, as in a HorizontalPodAutoscaler. The one that asks for most
    /// wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub metrics: Vec<MetricSpec>,

    /// Windows of time in which the workload has at least so many replicas. Of several that are
    /// open the largest wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub crons: Vec<CronSpec>,

    /// How fast it may grow and shrink, as in a HorizontalPodAutoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Behavior>,

    /// How metrics are predicted. Absent means that they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
}

/// Whether a workload is really scaled.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScaleStrategy {
    /// It is.
    #[default]
    Auto,
    /// It is not: the status says what would be done.
    Preview,
}

/// How metrics are predicted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// How far ahead is looked. The largest value that is expected within this time counts, so that
    /// replicas are there before the load is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 600))]
    pub prediction_window_seconds: Option<i32>,

    /// By which algorithm. Absent means that nothing is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction_algorithm: Option<Algorithm>,
}

/// How far ahead is looked unless an object says.
pub const DEFAULT_PREDICTION_WINDOW_SECONDS: i32 = 3600;

impl EffectiveHorizontalPodAutoscalerSpec {
    /// The least that the workload may have.
    pub fn effective_min_replicas(&self) -> i32 {
        self.min_replicas.unwrap_or(1)
    }

    /// Whether the workload is really scaled.
    pub fn effective_strategy(&self) -> ScaleStrategy {
        self.scale_strategy.unwrap_or_default()
    }
}

/// Reads an object, or says which of its fields cannot be read.
pub fn parse(object: serde_json::Value) -> Result<EffectiveHorizontalPodAutoscaler, ParseError> {
    crate::parse::parse(object)
}
