//! `behavior`: how fast a workload may grow and shrink. Source: `HorizontalPodAutoscalerBehavior`
//! of `autoscaling/v2`.

use model::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Rules of both directions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// On the way up. Absent means at most four pods or double in 15 seconds, whichever is more,
    /// without looking back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// On the way down. Absent means as fast as one likes after looking back for as long as the
    /// cluster says, usually five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// Rules of one direction.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// For how many seconds earlier proposals hold back a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub stabilization_window_seconds: Option<i32>,
    /// Which of the policies holds. Absent means the one that changes most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SelectPolicy>,
    /// How much may change in how long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ScalingPolicy>,
    /// How far usage may be from its target before anything changes, as a fraction of the target.
    /// Absent means as the cluster says, usually 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub tolerance: Option<Quantity>,
}

/// Which of several policies holds.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SelectPolicy {
    /// The one that changes most.
    Max,
    /// The one that changes least.
    Min,
    /// None: nothing may change in this direction.
    Disabled,
}

/// How much may change in how long.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicy {
    /// What value counts.
    #[serde(rename = "type")]
    pub kind: PolicyKind,
    /// How much may change.
    #[schemars(range(min = 1))]
    pub value: i32,
    /// Within how many seconds.
    #[schemars(range(min = 1, max = 1800))]
    pub period_seconds: i32,
}

/// What the value of a policy counts.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Pods.
    Pods,
    /// Percent of the pods there were at the beginning of the period.
    Percent,
}
