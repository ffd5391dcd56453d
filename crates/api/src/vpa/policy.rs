//! `spec.resourcePolicy`: constraints on recommendations, per container.

use model::{Quantity, ResourceList, ResourceName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StartupBoost;
use crate::schema;

/// `containerName` of the default policy of containers without one of their own.
pub const ALL_CONTAINERS: &str = "*";

/// Constraints on recommendations.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodResourcePolicy {
    /// One policy per container, and one named * for the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_policies: Vec<ContainerResourcePolicy>,
}

/// Sizing of one container.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResourcePolicy {
    /// Name of the container, or * for all containers without a policy of their own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container_name: String,

    /// Whether the container is sized. Absent means Auto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ContainerScalingMode>,

    /// Minimum recommendation. Absent means no minimum.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub min_allowed: ResourceList,

    /// Maximum recommendation. Absent means no maximum.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub max_allowed: ResourceList,

    /// Resources to size. Absent means cpu and memory; an empty list means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_names")]
    pub controlled_resources: Option<Vec<ResourceName>>,

    /// Whether limits follow the requests. Absent means RequestsAndLimits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controlled_values: Option<ContainerControlledValues>,

    /// Minimum factor of the memory increase after an OOM kill. Overrides the recommender's flag
    /// --oom-bump-up-ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub oom_bump_up_ratio: Option<Quantity>,

    /// Minimum memory increase after an OOM kill. Overrides the recommender's flag
    /// --oom-min-bump-up-bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub oom_min_bump_up: Option<Quantity>,

    /// Length in seconds of the interval whose memory peak is one sample. Overrides the
    /// recommender's flag --memory-aggregation-interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_aggregation_interval_seconds: Option<i32>,

    /// Number of such intervals in the history. Overrides the recommender's flag
    /// --memory-aggregation-interval-count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_aggregation_interval_count: Option<i64>,

    /// Additional CPU while this container starts. Overrides the boost of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_boost: Option<StartupBoost>,
}

/// Whether the container is sized. Absent means Auto.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContainerScalingMode {
    /// The container is sized.
    #[default]
    Auto,
    /// The container gets no recommendation.
    Off,
}

/// Whether limits follow the requests. Absent means RequestsAndLimits.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContainerControlledValues {
    /// Requests, and limits in proportion.
    #[default]
    RequestsAndLimits,
    /// Requests only; limits stay unchanged and cap the requests.
    RequestsOnly,
}
