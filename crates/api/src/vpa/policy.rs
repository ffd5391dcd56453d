//! `spec.resourcePolicy`, `spec.startupBoost` and `spec.updatePolicy`: constraints on recommendations,
//! additional CPU while a container starts, and rules for applying recommendations.

use model::{Quantity, ResourceList, ResourceName};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use crate::schema;

/// `containerName` of the default policy of containers without one of their own.
pub const ALL_CONTAINERS: &str = "*";

/// The fields of `podPolicy`, as in upstream's enhancement proposal 7571.
const POD_POLICY_FIELDS: [&str; 7] = [
    "mode",
    "minAllowed",
    "maxAllowed",
    "controlledResources",
    "controlledValues",
    "oomBumpUpRatio",
    "oomMinBumpUp",
];

/// Constraints on recommendations.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.podPolicy) || !has(self.containerPolicies)",
    "message": "podPolicy sizes the pod as a whole, so there can be no containerPolicies beside it",
}]))]
pub struct PodResourcePolicy {
    /// One policy per container, and one named * for the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_policies: Vec<ContainerResourcePolicy>,

    /// Sizing of the pod as a whole (spec.resources), in place of its containers. Absent, or with a
    /// mode other than Auto, the containers are sized. Excludes containerPolicies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod_policy")]
    pub pod_policy: Option<ContainerResourcePolicy>,
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

/// Additional resources while a pod starts.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct StartupBoost {
    /// CPU boost. Absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStartupBoost>,
}

/// Amount and duration of a CPU boost.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(self.type == 'Factor') == has(self.factor)",
        "message": "factor is required when type is Factor and forbidden otherwise",
    },
    {
        "rule": "(self.type == 'Quantity') == has(self.quantity)",
        "message": "quantity is required when type is Quantity and forbidden otherwise",
    },
]))]
pub struct CpuStartupBoost {
    /// Whether factor or quantity defines the boost.
    #[serde(rename = "type")]
    pub kind: StartupBoostType,
    /// Multiplier of the request. Required with the type Factor, and only allowed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<i32>,
    /// CPU added to the request and the limit while starting. Required with the type Quantity, and
    /// only allowed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub quantity: Option<Quantity>,
    /// Seconds for which the boost continues after the pod is ready. Absent means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<i32>,
}

/// Field that defines the boost.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StartupBoostType {
    /// `factor`
    Factor,
    /// `quantity`
    Quantity,
}

/// Rules for applying recommendations to pods.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodUpdatePolicy {
    /// Mode of changing the resources of pods. Absent means Recreate.
    #[serde(
        default,
        deserialize_with = "empty_is_absent",
        skip_serializing_if = "Option::is_none"
    )]
    pub update_mode: Option<UpdateMode>,

    /// Minimum number of live replicas of the workload for evictions. Must be positive. Overrides
    /// the updater's flag --min-replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,

    /// Conditions for an eviction. All of them must be met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eviction_requirements: Vec<EvictionRequirement>,

    /// A container that is OOM-killed within this many seconds of its start makes its pod a
    /// candidate for eviction. Overrides the updater's flag --evict-after-oom-threshold.
    #[serde(
        default,
        rename = "evictAfterOOMSeconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1))]
    pub evict_after_oom_seconds: Option<i32>,
}

/// Mode of changing the resources of pods. Absent means Recreate.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateMode {
    /// Recommend only; never change a pod.
    Off,
    /// Changes pods only when they are created.
    Initial,
    /// Changes pods when they are created, and evicts pods whose requests are far from the
    /// recommendation.
    Recreate,
    /// Resizes running pods; evicts them if that fails.
    InPlaceOrRecreate,
    /// Only resizes running pods; never evicts.
    InPlace,
    /// Deprecated: the same as Recreate.
    Auto,
}

/// Condition for an eviction.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EvictionRequirement {
    /// Resources to compare. One of them meeting changeRequirement is enough.
    #[schemars(schema_with = "schema::resource_names")]
    pub resources: Vec<ResourceName>,
    /// Required relation of the target to the current request.
    pub change_requirement: EvictionChangeRequirement,
}

/// Relation of the target to the current request.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionChangeRequirement {
    /// The target is higher than the request.
    TargetHigherThanRequests,
    /// The target is lower than the request.
    TargetLowerThanRequests,
}

/// `podPolicy`: the policy of a container without what only containers have.
fn pod_policy(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = ContainerResourcePolicy::json_schema(generator);
    if let Some(properties) = schema
        .get_mut("properties")
        .and_then(|it| it.as_object_mut())
    {
        properties.retain(|name, _| POD_POLICY_FIELDS.contains(&&**name));
        properties["mode"] = json!({
            "description": "Whether spec.resources of the pods is sized, in place of the containers. Absent means Off.",
            "type": "string",
            "enum": ["Auto", "Off"],
        });
    }
    schema
}

/// The empty string means no mode; Go clients write it so.
fn empty_is_absent<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<UpdateMode>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Text {
        Mode(UpdateMode),
        Other(String),
    }
    match Option::<Text>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Text::Mode(mode)) => Ok(Some(mode)),
        Some(Text::Other(text)) if text.is_empty() => Ok(None),
        Some(Text::Other(text)) => Err(serde::de::Error::custom(format!(
            "unknown update mode {text:?}"
        ))),
    }
}
