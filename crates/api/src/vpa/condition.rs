//! Conditions of a `VerticalPodAutoscaler`: one per type, ordered by type.
//!
//! Source: upstream `pkg/recommender/model/vpa.go`, `vpaConditionsMap`. A condition's time moves
//! only when its status does; a new reason or message leaves it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
pub use crate::condition::ConditionStatus;
use crate::schema;

/// Condition of a VPA: at least one container has a recommendation.
pub const RECOMMENDATION_PROVIDED: &str = "RecommendationProvided";
/// Condition of a VPA: no pod matches the target's selector.
pub const NO_PODS_MATCHED: &str = "NoPodsMatched";
/// Condition of a VPA: history from Prometheus is incomplete; see
/// docs/history.md#history-from-prometheus.
///
/// Other recommenders set it while they load history. No checkpoint is written meanwhile.
pub const FETCHING_HISTORY: &str = "FetchingHistory";
/// Condition of a VPA: upstream's; always removed, as upstream.
pub const CONFIG_DEPRECATED: &str = "ConfigDeprecated";
/// Condition of a VPA: the source of usage does not respond; the recommendation does not change.
///
/// It should not trigger updates meanwhile. Not upstream's.
pub const SOURCE_STALE: &str = "SourceStale";
/// Condition of a VPA: an HPA scales by utilization of a resource that the object sizes; see
/// docs/sizing.md#next-to-an-hpa.
///
/// Not upstream's.
pub const CONFLICTS_WITH_HPA: &str = "ConflictsWithHPA";
/// Reason of `ConflictsWithHPA` of a VPA: the resource is left out of the recommendation.
pub const HPA_RESOURCE_LEFT_OUT: &str = "ResourceLeftOut";
/// Condition of a VPA: pods have the recommended requests, or the reason against it; see
/// docs/updating.md#reasons-for-not-updating-pods.
///
/// As the updater reports it. Not upstream's.
pub const APPLIED: &str = "Applied";
/// Condition of a VPA: the target cannot be used; the message says why.
pub const CONFIG_UNSUPPORTED: &str = "ConfigUnsupported";

/// State of one aspect of the object.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VerticalPodAutoscalerCondition {
    /// Type of the condition in CamelCase.
    #[serde(rename = "type")]
    pub kind: String,
    /// Status of the condition: True, False or Unknown.
    pub status: String,
    /// Last time the status changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Option<Time>,
    /// Reason for the status in CamelCase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Details for humans.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// metadata.generation of the object that the condition was computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

impl From<Condition> for VerticalPodAutoscalerCondition {
    fn from(condition: Condition) -> Self {
        Self {
            kind: condition.kind,
            status: condition.status.as_str().to_owned(),
            last_transition_time: Some(condition.last_transition_time),
            reason: condition.reason,
            message: condition.message,
            observed_generation: condition.observed_generation,
        }
    }
}

/// The conditions of one object by type. Types of other controllers are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions(BTreeMap<String, VerticalPodAutoscalerCondition>);

impl Conditions {
    /// Sets a condition.
    pub fn set(
        &mut self,
        kind: &str,
        status: impl Into<ConditionStatus>,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) -> &mut Self {
        let status = status.into();
        let same = self.get(kind).filter(|old| old.status == status.as_str());
        let since = same.and_then(|old| old.last_transition_time.clone());
        let condition = Condition::new(kind, status, reason, message, since, now);
        self.0.insert(kind.to_owned(), condition.into());
        self
    }

    /// Removes a condition.
    pub fn remove(&mut self, kind: &str) -> &mut Self {
        self.0.remove(kind);
        self
    }

    /// The condition of this type, if any.
    pub fn get(&self, kind: &str) -> Option<&VerticalPodAutoscalerCondition> {
        self.0.get(kind)
    }

    /// All conditions ordered by type, as in the status.
    pub fn to_list(&self) -> Vec<VerticalPodAutoscalerCondition> {
        self.0.values().cloned().collect()
    }
}

impl FromIterator<VerticalPodAutoscalerCondition> for Conditions {
    /// Of several conditions of one type the last one is kept.
    fn from_iter<I: IntoIterator<Item = VerticalPodAutoscalerCondition>>(conditions: I) -> Self {
        Self(
            conditions
                .into_iter()
                .map(|condition| (condition.kind.clone(), condition))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn time_of(conditions: &Conditions, kind: &str) -> i64 {
        let condition = conditions.get(kind).unwrap();
        condition
            .last_transition_time
            .as_ref()
            .unwrap()
            .0
            .as_second()
    }

    #[test]
    fn the_time_moves_only_when_the_status_does() {
        let mut conditions = Conditions::default();
        for (now, status, reason, expected) in [
            (10, false, "", 10),
            (20, false, "NoPodsMatched", 10),
            (30, true, "NoPodsMatched", 30),
            (40, true, "", 30),
            (50, false, "", 50),
        ] {
            conditions.set(RECOMMENDATION_PROVIDED, status, reason, "", at(now));
            let found = conditions.get(RECOMMENDATION_PROVIDED).unwrap();
            assert_eq!(found.reason, reason);
            assert_eq!(
                time_of(&conditions, RECOMMENDATION_PROVIDED),
                expected,
                "at {now}"
            );
        }
    }

    #[test]
    fn a_condition_that_was_taken_out_starts_anew() {
        let is_true = |conditions: &Conditions| {
            let found = conditions.get(NO_PODS_MATCHED);
            found.is_some_and(|condition| condition.status == "True")
        };
        let mut conditions = Conditions::default();
        conditions
            .set(NO_PODS_MATCHED, true, "", "", at(10))
            .remove(NO_PODS_MATCHED);
        assert!(!is_true(&conditions));
        conditions.set(NO_PODS_MATCHED, true, "", "", at(20));
        assert!(is_true(&conditions));
        assert_eq!(time_of(&conditions, NO_PODS_MATCHED), 20);
    }

    #[test]
    fn conditions_are_listed_by_type_and_foreign_ones_are_kept() {
        let foreign = VerticalPodAutoscalerCondition {
            kind: "Blessed".into(),
            status: "Perhaps".into(),
            last_transition_time: None,
            reason: String::new(),
            message: "by another controller".into(),
            observed_generation: Some(4),
        };
        let mut conditions: Conditions = [foreign.clone()].into_iter().collect();
        conditions
            .set(RECOMMENDATION_PROVIDED, true, "", "", at(1))
            .set(CONFIG_UNSUPPORTED, ConditionStatus::Unknown, "", "", at(1));
        let listed = conditions.to_list();
        let kinds: Vec<&str> = listed
            .iter()
            .map(|condition| condition.kind.as_str())
            .collect();
        assert_eq!(
            kinds,
            ["Blessed", CONFIG_UNSUPPORTED, RECOMMENDATION_PROVIDED]
        );
        assert_eq!(listed[0], foreign);
    }

    #[test]
    fn a_condition_is_the_same_once_it_was_written_and_read() {
        let mut conditions = Conditions::default();
        let now = Timestamp::from_millisecond(1_500).unwrap();
        conditions.set(NO_PODS_MATCHED, true, "r", "m", now);
        let written = serde_json::to_value(conditions.to_list()).unwrap();
        let read: Vec<VerticalPodAutoscalerCondition> = serde_json::from_value(written).unwrap();
        assert_eq!(read.into_iter().collect::<Conditions>(), conditions);
    }
}
