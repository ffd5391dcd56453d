//! Condition of an object in the form of `metav1.Condition`, and the one function that sets a
//! condition, also of a `VerticalPodAutoscaler`.

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

/// Maximum length of a message in characters, as in the schema.
const MAX_MESSAGE: usize = 32_768;

impl Condition {
    /// A condition that is set now. `lastTransitionTime` changes only with the status: `since` is
    /// that of the condition before, if it has the same status. Times in objects have whole
    /// seconds; a finer one would differ from itself once read back.
    pub(crate) fn new(
        kind: &str,
        status: ConditionStatus,
        reason: &str,
        message: &str,
        since: Option<Time>,
        now: Timestamp,
    ) -> Self {
        let whole_seconds = || Timestamp::from_second(now.as_second()).unwrap_or(now);
        Self {
            kind: kind.to_owned(),
            status,
            observed_generation: None,
            last_transition_time: since.unwrap_or_else(|| Time(whole_seconds())),
            reason: reason.to_owned(),
            message: message.chars().take(MAX_MESSAGE).collect(),
        }
    }
}

/// Sets a condition in a list.
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
    let same = old.as_ref().filter(|old| old.status == status);
    let since = same.map(|old| old.last_transition_time.clone());
    let condition = Condition::new(kind, status, reason, message, since, now);
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}
