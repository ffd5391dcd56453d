//! `spec.updatePolicy`: rules for applying recommendations to pods.

use model::ResourceName;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::schema;

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
