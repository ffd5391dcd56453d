//! `crons`: schedules with a minimum number of replicas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Syntax of a cron expression: five fields, a word such as @daily, or @every and a duration, with
/// an optional leading time zone. The values of the fields are checked later.
const CRON: &str = r"^\s*((CRON_)?TZ=\S+\s+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every \S+|\S+(\s+\S+){4})\s*$";

/// Recurring time window.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CronSpec {
    /// Name of the schedule, unique within the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,

    /// Purpose of the schedule.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub description: String,

    /// IANA time zone of start and end. Absent means UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub timezone: Option<String>,

    /// Start of the window as a cron expression of five fields.
    #[schemars(length(max = 253), regex(pattern = CRON))]
    pub start: String,

    /// End of the window as a cron expression of five fields. A window past midnight ends on the
    /// next day.
    #[schemars(length(max = 253), regex(pattern = CRON))]
    pub end: String,

    /// Minimum number of replicas in the window. The HorizontalPodAutoscaler does not scale while
    /// the current number is within its tolerance, by default 10 percent: with 100 replicas, a
    /// window for 105 has no effect.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub target_replicas: i32,
}
