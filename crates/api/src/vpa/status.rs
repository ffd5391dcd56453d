//! `status` of a `VerticalPodAutoscaler`.
//!
//! Upstream replaces the whole status with one JSON patch, without a resource version, and only if
//! the new status differs semantically (`pkg/utils/vpa/api.go`, `UpdateVpaStatusIfNeeded`). The
//! equality of these types is that comparison: absent and empty lists and maps are equal,
//! quantities compare by value, times by instant.

use model::{ContainerRecommendation, Recommendation, ResourceList};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::VerticalPodAutoscalerCondition;
use crate::schema;

/// Observed state and recommendation.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VerticalPodAutoscalerStatus {
    /// The latest recommendation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<RecommendedPodResources>,

    /// Conditions of the object, ordered by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<VerticalPodAutoscalerCondition>,

    /// metadata.generation of the object that this status was computed for.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub observed_generation: i64,
}

/// Recommendations for the containers of a pod.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RecommendedPodResources {
    /// One recommendation per container, ordered by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_recommendations: Vec<RecommendedContainerResources>,
}

/// The recommendation for one container.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RecommendedContainerResources {
    /// Name of the container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container_name: String,

    /// Recommended requests, within the constraints of the resource policy.
    #[schemars(schema_with = "schema::resource_list")]
    pub target: ResourceList,

    /// Pods with requests below this are updated first. Within the constraints of the resource
    /// policy.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub lower_bound: ResourceList,

    /// Pods with requests above this are updated first. Within the constraints of the resource
    /// policy.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub upper_bound: ResourceList,

    /// Recommendation before the constraints of the resource policy. For information only.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub uncapped_target: ResourceList,
}

impl From<Recommendation> for RecommendedPodResources {
    fn from(recommendation: Recommendation) -> Self {
        let containers = recommendation.containers.into_iter().map(Into::into);
        Self {
            container_recommendations: containers.collect(),
        }
    }
}

impl From<RecommendedPodResources> for Recommendation {
    fn from(recommendation: RecommendedPodResources) -> Self {
        let containers = recommendation.container_recommendations.into_iter();
        Self {
            containers: containers.map(Into::into).collect(),
        }
    }
}

impl From<ContainerRecommendation> for RecommendedContainerResources {
    fn from(container: ContainerRecommendation) -> Self {
        Self {
            container_name: container.container_name,
            target: container.target,
            lower_bound: container.lower_bound,
            upper_bound: container.upper_bound,
            uncapped_target: container.uncapped_target,
        }
    }
}

impl From<RecommendedContainerResources> for ContainerRecommendation {
    fn from(container: RecommendedContainerResources) -> Self {
        Self {
            container_name: container.container_name,
            target: container.target,
            lower_bound: container.lower_bound,
            upper_bound: container.upper_bound,
            uncapped_target: container.uncapped_target,
        }
    }
}
