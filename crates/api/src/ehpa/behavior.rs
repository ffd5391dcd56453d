//! `behavior`: rate limits of scaling. Source: `HorizontalPodAutoscalerBehavior` of
//! `autoscaling/v2`.

use model::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Scaling rules of both directions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// Rules for scaling up. Absent means at most four pods or 100 percent in 15 seconds, whichever
    /// is more, without stabilization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// Rules for scaling down. Absent means no rate limit, with the stabilization window of the
    /// cluster, usually five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// Scaling rules of one direction.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// Seconds for which earlier recommendations limit a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub stabilization_window_seconds: Option<i32>,
    /// Selection among the policies. Absent means Max.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SelectPolicy>,
    /// Rate limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ScalingPolicy>,
    /// Tolerated deviation from the target as a fraction of it. Absent means the setting of the
    /// cluster, usually 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub tolerance: Option<Quantity>,
}

/// Selection among several policies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SelectPolicy {
    /// The policy with the largest change.
    Max,
    /// The policy with the smallest change.
    Min,
    /// No scaling in this direction.
    Disabled,
}

/// Rate limit.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicy {
    /// Unit of the value.
    #[serde(rename = "type")]
    pub kind: PolicyKind,
    /// Maximum change.
    #[schemars(range(min = 1))]
    pub value: i32,
    /// Period in seconds.
    #[schemars(range(min = 1, max = 1800))]
    pub period_seconds: i32,
}

/// Unit of a policy's value.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Pods.
    Pods,
    /// Percent of the pods at the start of the period.
    Percent,
}
