//! `crons`: windows of time in which a workload has at least so many replicas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Five fields, a word such as @daily, or @every and a duration; a time zone may come first. What
/// the fields say is checked later.
const CRON: &str = r"^\s*((CRON_)?TZ=\S+\s+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every \S+|\S+(\s+\S+){4})\s*$";

/// A window of time that opens and closes again and again.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CronSpec {
    /// Name of the window among those of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,

    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub description: String,

    /// IANA name of the time zone that start and end are in. Absent means UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub timezone: Option<String>,

    /// When the window opens, as a cron of five fields.
    #[schemars(length(max = 253), regex(pattern = CRON))]
    pub start: String,

    /// When the window closes, as a cron of five fields. A window over midnight closes on the next
    /// day.
    #[schemars(length(max = 253), regex(pattern = CRON))]
    pub end: String,

    /// How many replicas there are at least while the window is open. The HorizontalPodAutoscaler
    /// changes nothing while the number of pods is within its tolerance of this, a tenth unless
    /// behavior or the cluster says otherwise: 100 replicas stay 100 in a window for 105.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub target_replicas: i32,
}
