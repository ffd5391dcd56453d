//! The recommender: watches pods, reads their usage, and writes recommendations into the status of
//! `VerticalPodAutoscaler` objects. The decisions are in the crate `vertical`. The process also runs
//! the crate `controllers`.
//!
//! * `args`: flags; `config`: settings that no flag has.
//! * `run`: start of the program.
//! * `ingest`: usage, OOM kills and changes into the state, in every replica.
//! * `recommend_loop`: recommendations after every change, in the leader.
//! * `checkpoints`: controller of the checkpoints.
//! * `status_writer`, `checkpoint_writer`: the only writes.
//! * `usage_source`: the source of usage; `backfill`: its history from Prometheus.
//! * `feed_server`: feed to the other services.
//! * `metrics`: metrics of all this.

pub mod args;
mod backfill;
mod checkpoint_writer;
mod checkpoints;
pub mod config;
mod feed_server;
#[cfg(test)]
mod fixture;
mod ingest;
mod metrics;
mod recommend_loop;
mod run;
mod status_writer;
mod usage_source;

pub use args::{Args, PROGRAM};
pub use run::run;
