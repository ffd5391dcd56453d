//! The updater: applies recommendations to running pods, in place where possible, and by eviction
//! within the disruption budgets otherwise.
//!
//! * [`args`] has the command-line flags
//! * `config` has the file of `--config`
//! * `run` wires everything
//! * `control_loop` makes passes and carries out their actions while this replica leads
//! * `feed_overlay` has the recommendations of the feed that take precedence over the status
//! * `node_load` reads the load of nodes from a load-watcher
//! * `pod_writer` sends evictions and resizes
//! * `deployment_writer` begins rolling updates of Deployments
//! * `application_reports` reports to the recommender whether pods have the recommended requests
//! * `events` writes Kubernetes events
//! * [`metrics`] has the metrics
//!
//! Decisions are in the crate `rollout`.

mod application_reports;
pub mod args;
mod config;
mod control_loop;
mod deployment_writer;
mod events;
mod feed_overlay;
#[cfg(test)]
mod fixture;
pub mod metrics;
mod node_load;
mod pod_writer;
mod run;

pub use args::{Args, PROGRAM};
pub use run::run;
