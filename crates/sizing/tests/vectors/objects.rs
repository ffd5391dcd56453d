//! The parts of a `VerticalPodAutoscaler` needed for sizing.

use model::{Quantity, ResourceList, ResourceName};
use serde::Deserialize;
use sizing::{ContainerPolicy, ScalingMode};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VpaSpec {
    pub(crate) resource_policy: Option<ResourcePolicy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourcePolicy {
    #[serde(default)]
    pub(crate) container_policies: Vec<Policy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Policy {
    #[serde(default)]
    pub(crate) container_name: String,
    mode: Option<String>,
    #[serde(default)]
    pub(crate) min_allowed: ResourceList,
    #[serde(default)]
    pub(crate) max_allowed: ResourceList,
    controlled_resources: Option<Vec<ResourceName>>,
    pub(crate) controlled_values: Option<String>,
    oom_bump_up_ratio: Option<Quantity>,
    oom_min_bump_up: Option<Quantity>,
    memory_aggregation_interval_seconds: Option<i32>,
    memory_aggregation_interval_count: Option<i64>,
}

impl VpaSpec {
    pub(crate) fn policies(self) -> Vec<ContainerPolicy> {
        let policies = self
            .resource_policy
            .map(|policy| policy.container_policies)
            .unwrap_or_default();
        policies.into_iter().map(ContainerPolicy::from).collect()
    }
}

impl From<Policy> for ContainerPolicy {
    fn from(policy: Policy) -> Self {
        Self {
            container_name: policy.container_name,
            mode: if policy.mode.as_deref() == Some("Off") {
                ScalingMode::Off
            } else {
                ScalingMode::Auto
            },
            min_allowed: policy.min_allowed,
            max_allowed: policy.max_allowed,
            controlled_resources: policy.controlled_resources,
            oom_bump_up_ratio: policy.oom_bump_up_ratio,
            oom_min_bump_up: policy.oom_min_bump_up,
            memory_aggregation_interval_seconds: policy.memory_aggregation_interval_seconds,
            memory_aggregation_interval_count: policy.memory_aggregation_interval_count,
        }
    }
}
