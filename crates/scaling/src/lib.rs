//! How many replicas? From what a workload uses, or is expected to use, to a number of pods.
//!
//! Pure: no input or output, no clock. Where each formula lives:
//!
//! | formula | file |
//! |---|---|
//! | native HPA: which pods count | `hpa/pods.rs` |
//! | native HPA: replicas from the values of pods, or from one of the workload | `hpa/per_pod.rs`, `hpa/total.rs` |
//! | native HPA: several metrics together | `hpa/combine.rs` |
//! | native HPA: stabilisation, rate, bounds | `hpa/recommendations.rs`, `hpa/rate.rs`, `hpa/normalise.rs` |
//! | crons in time zones, their windows | `cron/occurrence.rs`, `cron/window.rs` |
//! | what the windows ask for | `cron/replicas.rs` |
//! | the value served for a prediction | `crane_prediction.rs` |
//! | Crane: replicas for a percentile of usage | `crane_replicas.rs` |
//! | percentile of a list of values | `percentile.rs` |

pub mod cron;
pub mod hpa;

mod crane_prediction;
mod crane_replicas;
mod percentile;

pub use crane_prediction::{NoPrediction, Predicted, window_maximum};
pub use crane_replicas::{
    ContainerRequests, Replicas, ReplicasConfig, ReplicasError, ResourceTarget,
};
pub use percentile::{PercentileError, percentile};
