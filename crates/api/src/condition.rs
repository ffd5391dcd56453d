//! Condition of an object in the form of `metav1.Condition`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// State of one aspect of the object.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition in CamelCase.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub kind: String,
    /// Status of the condition.
    pub status: ConditionStatus,
    /// metadata.generation of the object that the condition was computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Last time the status changed.
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Time,
    /// Reason for the status in CamelCase.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// Details for humans.
    #[schemars(length(max = 32768))]
    pub message: String,
}

/// Status of a condition.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// The status cannot be determined.
    Unknown,
}

impl ConditionStatus {
    /// Text in the object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(is_true: bool) -> Self {
        if is_true { Self::True } else { Self::False }
    }
}

/// Sets a condition. `lastTransitionTime` changes only with the status.
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let old = conditions
        .iter_mut()
        .find(|condition| condition.kind == kind);
    let last_transition_time = match &old {
        Some(old) if old.status == status => old.last_transition_time.clone(),
        _ => Time(now),
    };
    let condition = Condition {
        kind: kind.to_owned(),
        status,
        observed_generation: None,
        last_transition_time,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}
