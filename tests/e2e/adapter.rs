//! The metrics adapter before a real control plane: its two APIs are reached through the API
//! server's aggregation, as the horizontal pod autoscaler reaches them.

mod expected;
mod failures;
mod feed;
mod guard;
mod rotation;
mod rule_history;
mod rules;
mod served;
mod shop;
mod stage;
mod takeover;
