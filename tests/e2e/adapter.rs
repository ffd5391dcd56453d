//! The metrics adapter before a real control plane: its two APIs are reached through the API
//! server's aggregation, as the horizontal pod autoscaler reaches them.

mod api;
pub(crate) mod cron_schedules;
mod direct_access;
mod ehpa_fixture;
mod external_usage;
mod failures;
mod feed;
mod fixture;
mod pod_cpu;
mod rotation;
mod rule_history;
mod rules;
mod takeover;
