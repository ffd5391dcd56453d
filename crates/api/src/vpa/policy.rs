//! `spec.resourcePolicy`: limits on what may be recommended, per container.

use model::{Quantity, ResourceList, ResourceName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StartupBoost;
use crate::schema;

/// `containerName` of the policy for every container that has none of its own.
pub const ALL_CONTAINERS: &str = "*";

/// Limits on what may be recommended.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodResourcePolicy {
    /// One policy per container, and one named * for the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_policies: Vec<ContainerResourcePolicy>,
}

/// How one container is sized.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResourcePolicy {
    /// Name of the container, or * for all containers without a policy of their own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container_name: String,

    /// Whether the container is sized at all. Absent means Auto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ContainerScalingMode>,

    /// The least that is recommended. Absent means no lower limit.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub min_allowed: ResourceList,

    /// The most that is recommended. Absent means no upper limit.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub max_allowed: ResourceList,

    /// The resources that are sized. Absent means cpu and memory; an empty list means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_names")]
    pub controlled_resources: Option<Vec<ResourceName>>,

    /// Whether limits follow the requests. Absent means RequestsAndLimits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controlled_values: Option<ContainerControlledValues>,

    /// After a kill for lack of memory, memory is multiplied by at least this. Stands before the
    /// recommender's flag --oom-bump-up-ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub oom_bump_up_ratio: Option<Quantity>,

    /// After a kill for lack of memory, memory grows by at least this. Stands before the
    /// recommender's flag --oom-min-bump-up-bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub oom_min_bump_up: Option<Quantity>,

    /// Length in seconds of the interval that gives one memory sample: its peak. Stands before the
    /// recommender's flag --memory-aggregation-interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_aggregation_interval_seconds: Option<i32>,

    /// How many such intervals are looked back on. Stands before the recommender's flag
    /// --memory-aggregation-interval-count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub memory_aggregation_interval_count: Option<i64>,

    /// More CPU while this container starts. Stands before the boost of the whole pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_boost: Option<StartupBoost>,
}

/// Whether the container is sized at all. Absent means Auto.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContainerScalingMode {
    /// It is.
    #[default]
    Auto,
    /// It gets no recommendation.
    Off,
}

/// Whether limits follow the requests. Absent means RequestsAndLimits.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContainerControlledValues {
    /// Requests, and limits in proportion.
    #[default]
    RequestsAndLimits,
    /// Requests only; limits stay, and bound the requests.
    RequestsOnly,
}
