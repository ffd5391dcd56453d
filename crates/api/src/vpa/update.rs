//! `spec.updatePolicy`: when and how the pods get what is recommended.

use model::ResourceName;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::schema;

/// When and how pods get what is recommended.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PodUpdatePolicy {
    /// When the resources of the pods are changed. Absent means Recreate.
    #[serde(
        default,
        deserialize_with = "empty_is_absent",
        skip_serializing_if = "Option::is_none"
    )]
    pub update_mode: Option<UpdateMode>,

    /// Pods are evicted only while the workload has at least this many live replicas. Must be
    /// positive; stands before the updater's flag --min-replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,

    /// Conditions on an eviction; all of them must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eviction_requirements: Vec<EvictionRequirement>,

    /// A container killed for lack of memory within this many seconds of its start makes its pod a
    /// candidate for eviction. Stands before the updater's flag --evict-after-oom-threshold.
    #[serde(
        default,
        rename = "evictAfterOOMSeconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1))]
    pub evict_after_oom_seconds: Option<i32>,
}

/// When the resources of the pods are changed. Absent means Recreate.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateMode {
    /// Recommend only; never change a pod.
    Off,
    /// Only when a pod is created.
    Initial,
    /// When a pod is created, and by evicting pods that are far off.
    Recreate,
    /// By resizing running pods; where that does not work, by evicting them.
    InPlaceOrRecreate,
    /// Only by resizing running pods; never evict.
    InPlace,
    /// Deprecated: the same as Recreate.
    Auto,
}

/// A condition on an eviction.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EvictionRequirement {
    /// Resources that are looked at; one of them that fulfils changeRequirement is enough.
    #[schemars(schema_with = "schema::resource_names")]
    pub resources: Vec<ResourceName>,
    /// How the target must compare with the current request.
    pub change_requirement: EvictionChangeRequirement,
}

/// How a target must compare with the current request for an eviction.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionChangeRequirement {
    /// The pod would grow.
    TargetHigherThanRequests,
    /// The pod would shrink.
    TargetLowerThanRequests,
}

/// The empty text means the same as no mode; clients in Go write it so.
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
