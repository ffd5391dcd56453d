//! Controller of `SizingPolicy` and `ClusterSizingPolicy` objects: creates a
//! `VerticalPodAutoscaler` for each workload that they select. The decisions are in
//! [`vertical::sizing_policies`].

mod controller;
mod metrics;
mod writer;

pub use controller::{PolicyController, PolicyInputs};
pub use metrics::PolicyMetrics;
