//! The metrics adapter before a real control plane: its two APIs are reached through the API
//! server's aggregation, as the horizontal pod autoscaler reaches them.

mod api;
mod direct_access;
mod external_usage;
pub(crate) mod fixture;
mod rotation;
mod rules;
mod takeover;
