//! The recommender: watches pods, reads their usage and writes what they should request into the
//! status of `VerticalPodAutoscaler` objects.
//!
//! * [`args`]: the flags.
//! * [`run`]: starts everything: watches, ingestion in every replica, writing in the leader.
//! * [`state`]: what is known, in memory and without input or output.
//! * [`decide`]: from what is known to the status of one object, as a pure function.
//! * `history`: usage from before the start, fetched from Prometheus.
//! * [`schedulable`]: what holds recommendations to what can be scheduled.
//! * [`act`]: the only writes.
//! * [`storage`]: where history comes from that is older than this process.
//! * `tell`: decides after every change, tells the feed and has statuses written, urgent ones
//!   first.
//! * `ehpa`: controller of EHPAs.
//! * `predictions`: controller of predictions.
//! * `installed`: waits for kinds that not every cluster has, or gives the right to.
//! * `sizing_policies`: VPA objects for whole namespaces.
//! * `division`: how several of its kind divide the namespaces.
//! * `serve`: the feed to the other services.
//! * [`metrics`]: what is measured about all this.

mod act;
pub mod args;
mod checkpoints;
mod cooldown;
mod division;
mod ehpa;
#[cfg(test)]
mod fixture;
mod history;
mod ingest;
mod installed;
mod metrics;
mod outcome;
mod predictions;
mod recommend_loop;
mod run;
mod serve;
mod sizing_policies;
mod storage;
mod usage;

pub use args::{Args, PROGRAM};
pub use run::run;
