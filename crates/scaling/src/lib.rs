//! How many replicas? From the usage of a whole workload to a number of pods.
//!
//! Pure: no input or output, no clock. Where each formula lives:
//!
//! | formula | file |
//! |---|---|
//! | Crane's replicas recommender | `crane_replicas.rs` |
//! | percentile of a list of values | `percentile.rs` |

mod crane_replicas;
mod percentile;

pub use crane_replicas::{ContainerRequests, Replicas, ReplicasConfig, ReplicasError, ResourceTarget};
pub use percentile::{PercentileError, percentile};
