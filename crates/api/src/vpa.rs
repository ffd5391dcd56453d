//! `VerticalPodAutoscaler` of `autoscaling.k8s.io/v1`.
//!
//! Source: upstream `pkg/apis/autoscaling.k8s.io/v1/types.go` at 1.8. Field names, enums and the
//! omission of empty values are upstream's, so that objects can move between the two
//! implementations unchanged.

mod annotations;
pub mod applied;
mod condition;
mod defaults;
mod policy;

use kube::CustomResource;
use model::{Recommendation, Workload, WorkloadRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parse::ParseError;
use crate::schema;

pub(crate) use annotations::shortened;
pub use annotations::{HPA_ANNOTATION, HpaMode, MODE_BEFORE_REVERT, NODE_GROUP, NodeGroup};
pub use condition::{
    APPLIED, CONFIG_DEPRECATED, CONFIG_UNSUPPORTED, CONFLICTS_WITH_HPA, ConditionStatus,
    Conditions, FETCHING_HISTORY, HPA_RESOURCE_LEFT_OUT, NO_PODS_MATCHED, RECOMMENDATION_PROVIDED,
    SOURCE_STALE, VerticalPodAutoscalerCondition,
};
pub use defaults::{DEFAULT_CONTROLLED_RESOURCES, DEFAULT_RECOMMENDER, EffectiveUpdateMode};
pub use policy::{
    ALL_CONTAINERS, ContainerControlledValues, ContainerResourcePolicy, ContainerScalingMode,
    CpuStartupBoost, EvictionChangeRequirement, EvictionRequirement, PodResourcePolicy,
    PodUpdatePolicy, StartupBoost, StartupBoostType, UpdateMode,
};

/// Desired behaviour of the autoscaler.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "autoscaling.k8s.io",
    version = "v1",
    kind = "VerticalPodAutoscaler",
    namespaced,
    shortname = "vpa",
    status = "VerticalPodAutoscalerStatus",
    derive = "PartialEq",
    doc = "Keeps the resource requests and limits of a workload's containers close to their usage.",
    annotation(
        "api-approved.kubernetes.io",
        "https://github.com/kubernetes/kubernetes/pull/63797"
    ),
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".spec.updatePolicy.updateMode"
    ),
    printcolumn(
        name = "CPU",
        type_ = "string",
        json_path = ".status.recommendation.containerRecommendations[0].target.cpu"
    ),
    printcolumn(
        name = "Mem",
        type_ = "string",
        json_path = ".status.recommendation.containerRecommendations[0].target.memory"
    ),
    printcolumn(
        name = "Provided",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='RecommendationProvided')].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "MinReplicas",
        type_ = "integer",
        json_path = ".spec.updatePolicy.minReplicas",
        priority = 1
    ),
    printcolumn(
        name = "OOMSeconds",
        type_ = "integer",
        json_path = ".spec.updatePolicy.evictAfterOOMSeconds",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct VerticalPodAutoscalerSpec {
    /// Workload to size: a Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController,
    /// Job or CronJob, or any object with a scale subresource. It must be the topmost controller: a
    /// Deployment, not one of its ReplicaSets. An unsupported target is reported in the condition
    /// ConfigUnsupported.
    pub target_ref: CrossVersionObjectReference,

    /// Rules for applying recommendations to pods. Absent means the mode Recreate with the
    /// updater's flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<PodUpdatePolicy>,

    /// Constraints on the recommendations, per container. Absent means that every container of the
    /// pods is sized without constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_policy: Option<PodResourcePolicy>,

    /// Recommender for this object: at most one. Empty means the recommender named default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recommenders: Vec<RecommenderSelector>,

    /// Additional CPU while pods start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_boost: Option<StartupBoost>,
}

// Upstream replaces the whole status with one JSON patch, without a resource version, and only if the
// new status differs semantically (`pkg/utils/vpa/api.go`, `UpdateVpaStatusIfNeeded`). Equality is that
// comparison: absent and empty lists and maps are equal, quantities compare by value, times by instant.
/// Observed state and recommendation.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VerticalPodAutoscalerStatus {
    /// The latest recommendation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::recommendation")]
    pub recommendation: Option<Recommendation>,

    /// Conditions of the object, ordered by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<VerticalPodAutoscalerCondition>,

    /// metadata.generation of the object that this status was computed for.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub observed_generation: i64,
}

/// Reference to an object of any kind in the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct CrossVersionObjectReference {
    /// Group and version of the object, such as apps/v1.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Kind of the object, such as Deployment.
    pub kind: String,
    /// Name of the object.
    pub name: String,
}

impl CrossVersionObjectReference {
    /// Converts to a workload reference in a namespace.
    pub fn in_namespace(&self, namespace: &str) -> WorkloadRef {
        self.workload(namespace).to_ref()
    }

    /// The same, borrowed.
    pub fn workload<'a>(&'a self, namespace: &'a str) -> Workload<'a> {
        Workload {
            api_version: &self.api_version,
            kind: &self.kind,
            namespace,
            name: &self.name,
        }
    }
}

/// Reference to a recommender.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct RecommenderSelector {
    /// Name of the recommender (flag --recommender-name).
    pub name: String,
}

/// Parses an object. The error names the invalid field.
pub fn parse(object: serde_json::Value) -> Result<VerticalPodAutoscaler, ParseError> {
    crate::parse::parse(object)
}
