//! Gives running pods the size that is recommended, with the least disruption: in place where that
//! works, by eviction within the budget where not.
//!
//! * [`args`]: the flags.
//! * [`run`]: starts everything.
//! * `term`: one term of leadership: decides after every change, and has it carried out.
//! * [`pace`]: how fast. Pure.
//! * `pod_writer`: evictions and resizes.
//! * `events`: Kubernetes events.
//! * `heard`: what the feed tells, as decisions read it.
//! * [`metrics`]: what is measured about all this.

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
