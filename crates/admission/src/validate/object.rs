//! A `VerticalPodAutoscaler` in a review. Enumerations are strings, since the API server checks the
//! schema after the webhooks.

use model::{Quantity, ResourceList};
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Object {
    metadata: Option<Metadata>,
    pub(crate) spec: Option<Spec>,
}

/// The part of an object that tells whether it is being deleted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Deletion {
    metadata: Option<Metadata>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    annotations: Option<Annotations>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "plimsoll.dev/node-group")]
    node_group: Option<String>,
}

impl Object {
    pub(crate) fn node_group(&self) -> Option<&str> {
        let annotations = self.metadata.as_ref()?.annotations.as_ref()?;
        annotations.node_group.as_deref()
    }
}

impl Deletion {
    pub(crate) fn is_pending(&self) -> bool {
        self.metadata
            .as_ref()
            .is_some_and(|metadata| metadata.deletion_timestamp.is_some())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub(crate) target_ref: Option<TargetRef>,
    pub(crate) update_policy: Option<UpdatePolicy>,
    resource_policy: Option<ResourcePolicy>,
    pub(crate) startup_boost: Option<StartupBoost>,
    pub(crate) recommenders: Option<Vec<IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    pub(crate) kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UpdatePolicy {
    pub(crate) update_mode: Option<String>,
    pub(crate) min_replicas: Option<i32>,
    #[serde(rename = "evictAfterOOMSeconds")]
    pub(crate) evict_after_oom_seconds: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourcePolicy {
    container_policies: Option<Vec<Policy>>,
    pod_policy: Option<Policy>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Policy {
    pub(crate) container_name: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) min_allowed: Option<ResourceList>,
    pub(crate) max_allowed: Option<ResourceList>,
    pub(crate) controlled_resources: Option<Vec<String>>,
    pub(crate) controlled_values: Option<String>,
    pub(crate) oom_bump_up_ratio: Option<Quantity>,
    pub(crate) oom_min_bump_up: Option<Quantity>,
    pub(crate) memory_aggregation_interval_seconds: Option<i32>,
    pub(crate) memory_aggregation_interval_count: Option<i64>,
    pub(crate) startup_boost: Option<StartupBoost>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StartupBoost {
    pub(crate) cpu: Option<CpuBoost>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CpuBoost {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) factor: Option<i32>,
    pub(crate) quantity: Option<Quantity>,
}

impl Spec {
    pub(crate) fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.resource_policy
            .iter()
            .flat_map(|policy| policy.container_policies.iter().flatten())
    }

    pub(crate) fn pod_policy(&self) -> Option<&Policy> {
        self.resource_policy.as_ref()?.pod_policy.as_ref()
    }
}

impl Policy {
    /// Whether it has a field behind the gate `PerVPAConfig`.
    pub(crate) fn has_per_vpa_config(&self) -> bool {
        self.oom_bump_up_ratio.is_some()
            || self.oom_min_bump_up.is_some()
            || self.memory_aggregation_interval_seconds.is_some()
            || self.memory_aggregation_interval_count.is_some()
    }
}
