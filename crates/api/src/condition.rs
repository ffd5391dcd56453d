//! A condition of an object, as most Kubernetes objects write it (`metav1.Condition`).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// One thing that holds, or does not hold, for the object.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub kind: String,
    /// Whether it holds.
    pub status: Holds,
    /// metadata.generation of the object that the condition was found for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// When the status last changed.
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: Time,
    /// Why, in one word.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// Why, in a sentence.
    #[schemars(length(max = 32768))]
    pub message: String,
}

/// Whether a condition holds.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Puts a condition in the place of the one of its type; one whose status stays the same keeps its
/// time.
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    holds: Holds,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let old = conditions
        .iter_mut()
        .find(|condition| condition.kind == kind);
    let since = match &old {
        Some(old) if old.status == holds => old.last_transition_time.clone(),
        _ => Time(now),
    };
    let condition = Condition {
        kind: kind.to_owned(),
        status: holds,
        observed_generation: None,
        last_transition_time: since,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}
