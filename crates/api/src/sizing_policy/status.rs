//! `status` of a policy: how many workloads it means, how many of them it sizes, and what stands in the way of the others.

use json_patch::{AddOperation, Patch, PatchOperation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::patch;
use crate::vpa::VerticalPodAutoscalerCondition;

/// Every workload that is the policy's has its object as the policy says.
pub const READY: &str = "Ready";
/// Some workloads have an autoscaler of somebody else, which stays as it is.
pub const CONFLICTING: &str = "Conflicting";
/// Some workloads are another policy's, which goes before this one.
pub const OVERRIDDEN: &str = "Overridden";

/// The longest list of workloads in a status; the counts beside it are complete.
pub const MAX_LISTED: usize = 10;

/// What became of a policy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SizingPolicyStatus {
    /// metadata.generation of the policy that this status is about.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub observed_generation: i64,

    /// How many workloads the policy means.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub selected: i64,

    /// How many of them have an object of this policy.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub managed: i64,

    /// How many of them have an autoscaler of somebody else, or none since its name is taken.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub conflicts: i64,

    /// How many of them are another policy's, which goes before this one.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub overridden: i64,

    /// The first ten workloads that conflicts counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub conflicting: Vec<Contested>,

    /// The first ten workloads that overridden counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub overridden_by: Vec<Contested>,

    /// What holds for the policy at present, ordered by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<VerticalPodAutoscalerCondition>,
}

/// A workload that the policy means and does not size.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct Contested {
    /// Kind of the workload.
    pub kind: String,
    /// Namespace of the workload.
    pub namespace: String,
    /// Name of the workload.
    pub name: String,
    /// Kind and name of the object that stands in the way, as KIND/NAME.
    pub by: String,
}

/// The patch of the `status` subresource that puts `status` in place of whatever is there.
pub fn status_patch(status: &SizingPolicyStatus) -> Result<Patch, serde_json::Error> {
    let value = serde_json::to_value(status)?;
    Ok(Patch(vec![PatchOperation::Add(AddOperation { path: patch::status_path(), value })]))
}
