//! How many replicas? From what a workload uses, or is expected to use, to a number of pods.
//!
//! Pure: no input or output, no clock. Where each formula lives:
//!
//! | formula | file |
//! |---|---|
//! | the replica count of the Kubernetes `HorizontalPodAutoscaler` | `hpa.rs` |
//! | windows of time by crons in time zones | `cron.rs` |
//! | the value served for a prediction | `crane_prediction.rs` |
//! | Crane's replicas recommender | `crane_replicas.rs` |
//! | percentile of a list of values | `percentile.rs` |

pub mod cron;
pub mod hpa;

mod crane_prediction;
mod crane_replicas;
mod percentile;

pub use crane_prediction::{NoPrediction, Predicted, window_maximum};
pub use crane_replicas::{ContainerRequests, Replicas, ReplicasConfig, ReplicasError, ResourceTarget};
pub use percentile::{PercentileError, percentile};
