//! The recommender: watches pods, reads their usage, and writes recommendations into the status of
//! `VerticalPodAutoscaler` objects. The decisions are in the crate `vertical`.
//!
//! * `args`: flags.
//! * `run`: start of the program.
//! * `ingest`: usage, OOM kills and changes into the state, in every replica.
//! * `recommend_loop`: recommendations after every change, in the leader.
//! * `checkpoints`: controller of the checkpoints.
//! * `history`: backfill of usage from Prometheus.
//! * `sizing_policies`: controller of VPA objects for whole namespaces.
//! * `ehpa`, `predictions`: controllers of EHPAs and predictions.
//! * `act`: the only writes.
//! * `feed_server`: feed to the other services.
//! * `sharding`: sharding by namespace.
//! * `metrics`: metrics of all this.

mod act;
pub mod args;
mod checkpoints;
mod ehpa;
mod feed_server;
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
mod sharding;
mod sizing_policies;
mod storage;
mod usage;

pub use args::{Args, PROGRAM};
pub use run::run;
