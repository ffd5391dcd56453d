//! `status` of a policy: how many workloads it means, how many of them it sizes, and what stands in
//! the way of the others.

use std::collections::BTreeMap;

use json_patch::Patch;
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

    /// What the recommender's further shards found in their namespaces, by the number of the shard.
    /// The counts above include it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub shards: BTreeMap<String, ShardReport>,
}

/// What one shard of the recommender found.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ShardReport {
    /// metadata.generation of the policy that this report is about.
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

    /// Whether all is as it should be, or why not, in one word.
    #[serde(default)]
    pub reason: String,

    /// The same in a sentence.
    #[serde(default)]
    pub message: String,
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
    patch::put_status(status)
}

/// The merge patch of the `status` subresource that puts in the report of one shard and leaves
/// everything else.
pub fn report_patch(uid: &str, shard: u16, report: &ShardReport) -> serde_json::Value {
    // A list that is empty now may have been full: a merge takes away only what is said to be
    // nothing.
    serde_json::json!({
        "metadata": {"uid": uid},
        "status": {"shards": {shard.to_string(): {
            "observedGeneration": report.observed_generation,
            "selected": report.selected,
            "managed": report.managed,
            "conflicts": report.conflicts,
            "overridden": report.overridden,
            "conflicting": report.conflicting,
            "overriddenBy": report.overridden_by,
            "reason": report.reason,
            "message": report.message,
        }}},
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_report_takes_the_place_of_the_one_before_and_of_nothing_else() {
        let contested = Contested {
            kind: "Job".to_owned(),
            ..Contested::default()
        };
        let old = ShardReport {
            conflicts: 1,
            conflicting: vec![contested],
            ..ShardReport::default()
        };
        let new = ShardReport {
            managed: 2,
            reason: "UpToDate".to_owned(),
            ..ShardReport::default()
        };
        let status = |report: &ShardReport| SizingPolicyStatus {
            selected: 7,
            shards: [
                ("1".to_owned(), report.clone()),
                ("2".to_owned(), old.clone()),
            ]
            .into(),
            ..SizingPolicyStatus::default()
        };
        let mut object = json!({"metadata": {"uid": "u"}, "status": status(&old)});
        json_patch::merge(&mut object, &report_patch("u", 1, &new));
        let merged =
            |object: &Value| serde_json::from_value::<SizingPolicyStatus>(object["status"].clone());
        assert_eq!(merged(&object).expect("a status"), status(&new));
    }
}
