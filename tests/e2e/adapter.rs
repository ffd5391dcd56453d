//! The metrics adapter before a real control plane: its two APIs are reached through the API
//! server's aggregation, as the horizontal pod autoscaler reaches them.

mod ehpa_fixture;
mod expected;
mod failures;
mod feed;
mod fixture;
mod guard;
mod rotation;
mod rule_history;
mod rules;
mod served;
mod takeover;
