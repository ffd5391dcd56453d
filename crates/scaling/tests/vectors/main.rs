//! Comparison with inputs and outputs recorded by running the Kubernetes HPA controller and Crane.
//!
//! `testing::vectors` reads the recordings.

mod crane_cron;
mod crane_external;
mod crane_replicas;
mod hpa_behavior;
mod hpa_metrics;
mod hpa_objects;
mod hpa_replicas;
