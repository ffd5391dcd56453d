//! Comparison with inputs and outputs recorded by running Crane.
//!
//! `testing::vectors` reads the recordings.

mod crane_cron;
mod crane_external;
mod crane_replicas;
