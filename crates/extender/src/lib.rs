//! The scheduler extender: load-aware scores for the stock kube-scheduler.
//!
//! | module | contents |
//! |---|---|
//! | [`args`] | flags |
//! | `config` | file of `--config` |
//! | [`load_watcher`] | measured load of nodes in windows of 15, 10 and 5 minutes, and its REST API |
//! | [`scheduler`] | the extender protocol of kube-scheduler: filter and prioritize |
//!
//! Scores are pure functions of crate `placement`. The extender writes no object.

pub mod args;
mod config;
pub mod load_watcher;
mod run;
pub mod scheduler;

pub use args::{Args, PROGRAM};
pub use run::run;
