//! What a container should ask for, in the shape of `VerticalPodAutoscaler.status.recommendation`.

use serde::{Deserialize, Serialize};

use crate::ResourceList;

/// The recommendation for the containers of one workload, in the order of their names.
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

/// The recommendation for one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecommendation {
    /// The container's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container_name: String,
    /// What to ask for.
    pub target: ResourceList,
    /// Less than this is likely too little.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub lower_bound: ResourceList,
    /// More than this is likely wasted.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub upper_bound: ResourceList,
    /// The target before policies were applied.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub uncapped_target: ResourceList,
}
