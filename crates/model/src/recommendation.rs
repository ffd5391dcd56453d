//! Recommended requests of containers, in the shape of
//! `VerticalPodAutoscaler.status.recommendation`.

use serde::{Deserialize, Serialize};

use crate::ResourceList;

/// Recommendation for the containers of one workload, in order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// One entry per container.
    #[serde(
        default,
        rename = "containerRecommendations",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub containers: Vec<ContainerRecommendation>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecommendation {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container_name: String,
    /// Recommended request.
    pub target: ResourceList,
    /// Requests below this are likely insufficient.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub lower_bound: ResourceList,
    /// Requests above this are likely wasted.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub upper_bound: ResourceList,
    /// The target before policies.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub uncapped_target: ResourceList,
}
