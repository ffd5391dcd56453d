//! The updater: applies recommendations to running pods, in place where possible, and by eviction
//! within the disruption budgets otherwise.
//!
//! * [`args`]: command-line flags
//! * [`run`]: wiring
//! * `control_loop`: passes, and the actions that they decide on, while this replica leads
//! * `feed_overlay`: recommendations of the feed that take precedence over the status
//! * [`rate_limit`]: rate limits of evictions and resizes
//! * `pod_writer`: evictions and resizes
//! * `events`: Kubernetes events
//! * [`metrics`]: metrics
//!
//! Decisions are in the crate `rollout`.

pub mod args;
mod control_loop;
mod events;
mod feed_overlay;
pub mod metrics;
mod pod_writer;
pub mod rate_limit;
mod run;

pub use args::{Args, PROGRAM};
pub use run::run;
