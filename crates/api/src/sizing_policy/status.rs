//! `status` of a policy: number of selected and managed workloads, and conflicts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::vpa::VerticalPodAutoscalerCondition;

/// Condition of a sizing policy: every workload of the policy has an up-to-date VPA object.
pub const READY: &str = "Ready";
/// Condition, and event, of a sizing policy: selected workloads have a VPA that the policy does not
/// own.
///
/// It is left unchanged.
pub const CONFLICTING: &str = "Conflicting";
/// Condition, and event, of a sizing policy: selected workloads belong to another policy.
pub const OVERRIDDEN: &str = "Overridden";

/// Maximum number of listed workloads. The counts are complete.
pub const MAX_LISTED: usize = 10;

/// Numbers of workloads, and the conflicts among them.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PolicyCounts {
    /// metadata.generation of the policy that this was computed for.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub observed_generation: i64,

    /// Number of selected workloads.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub selected: i64,

    /// Selected workloads whose VPA this policy manages.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub managed: i64,

    /// Selected workloads that already have a VPA not managed by this policy, or whose VPA name is
    /// taken.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub conflicts: i64,

    /// Selected workloads that belong to another policy with precedence.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub overridden: i64,

    /// The first ten workloads counted in conflicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub conflicting: Vec<WorkloadConflict>,

    /// The first ten workloads counted in overridden.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub overridden_by: Vec<WorkloadConflict>,
}

/// Observed state of a policy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SizingPolicyStatus {
    /// Counts of the whole cluster.
    #[serde(flatten)]
    pub counts: PolicyCounts,

    /// Conditions of the policy, ordered by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<VerticalPodAutoscalerCondition>,

    /// Reports of the recommender's further shards on their namespaces, by shard number. The counts
    /// above include them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub shards: BTreeMap<String, ShardReport>,
}

/// Report of one recommender shard.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ShardReport {
    /// Counts of the namespaces of the shard.
    #[serde(flatten)]
    pub counts: PolicyCounts,

    /// Reason of the Ready condition in CamelCase.
    #[serde(default)]
    pub reason: String,

    /// Details for humans.
    #[serde(default)]
    pub message: String,
}

/// Workload that the policy selects but does not manage.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadConflict {
    /// Kind of the workload.
    pub kind: String,
    /// Namespace of the workload.
    pub namespace: String,
    /// Name of the workload.
    pub name: String,
    /// Object in conflict, as KIND/NAME.
    pub by: String,
}

/// Merge patch of the `status` subresource that replaces the report of one shard only.
pub fn report_patch(uid: &str, shard: u16, report: &ShardReport) -> serde_json::Value {
    let ShardReport {
        counts,
        reason,
        message,
    } = report;
    // Empty lists are written too, since a merge leaves absent fields alone.
    serde_json::json!({
        "metadata": {"uid": uid},
        "status": {"shards": {shard.to_string(): {
            "observedGeneration": counts.observed_generation,
            "selected": counts.selected,
            "managed": counts.managed,
            "conflicts": counts.conflicts,
            "overridden": counts.overridden,
            "conflicting": counts.conflicting,
            "overriddenBy": counts.overridden_by,
            "reason": reason,
            "message": message,
        }}},
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_report_takes_the_place_of_the_one_before_and_of_nothing_else() {
        let conflict = WorkloadConflict {
            kind: "Job".to_owned(),
            ..WorkloadConflict::default()
        };
        let (mut old, mut new) = (ShardReport::default(), ShardReport::default());
        old.counts.conflicts = 1;
        old.counts.conflicting = vec![conflict];
        new.counts.managed = 2;
        new.reason = "UpToDate".to_owned();
        let status = |report: &ShardReport| {
            let shards = [("1", report), ("2", &old)];
            let mut status = SizingPolicyStatus::default();
            status.counts.selected = 7;
            status.shards = shards
                .map(|(name, report)| (name.to_owned(), report.clone()))
                .into();
            status
        };
        let mut object = json!({"metadata": {"uid": "u"}, "status": status(&old)});
        json_patch::merge(&mut object, &report_patch("u", 1, &new));
        let merged =
            |object: &Value| serde_json::from_value::<SizingPolicyStatus>(object["status"].clone());
        assert_eq!(merged(&object).expect("a status"), status(&new));
    }
}
