//! Replica counts: from a workload's current or predicted usage, and from cron windows.
//!
//! Pure: no input or output, no clock. Formulas by file:
//!
//! | formula | file |
//! |---|---|
//! | cron expressions and windows with time zones | `cron/occurrence.rs`, `cron/window.rs` |
//! | replicas of cron windows | `cron.rs` |
//! | value served for a prediction | `crane_prediction.rs` |
//! | Crane: replicas for a percentile of usage | `crane_replicas.rs` |

pub mod cron;

mod crane_prediction;
mod crane_replicas;

pub use crane_prediction::{NoPrediction, Predicted, window_maximum};
pub use crane_replicas::{ContainerRequests, Replicas, ReplicasConfig, ResourceTarget, percentile};
