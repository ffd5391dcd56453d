//! Decisions about `EffectiveHorizontalPodAutoscaler` (EHPA) and `TimeSeriesPrediction` objects, as
//! synchronous functions of observed objects, histories and the time. No I/O and no clock here.
//!
//! | formula | file |
//! |---|---|
//! | from an EHPA to its HPA, prediction and status | `ehpa.rs`, `ehpa/plan.rs` |
//! | amount per pod that a predicted total is divided by | `ehpa/metrics.rs`, `ehpa/utilization.rs` |
//! | from a history to a forecast | `predictions/pipeline.rs`, `predictions/model.rs` |
//! | next history to read, within shares and memory limits | `predictions/prediction_set.rs`, `predictions/query_slots.rs`, `predictions/metric_entry.rs` |
//! | names of the pods of a workload | `pod_name_pattern.rs` |
//! | values of Crane's metrics | `crane_metrics.rs` |

pub mod crane_metrics;
pub mod ehpa;
mod pod_name_pattern;
pub mod predictions;

pub use pod_name_pattern::PodNamePattern;
