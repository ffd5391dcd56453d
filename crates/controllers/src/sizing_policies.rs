//! Controller of `SizingPolicy` and `ClusterSizingPolicy` objects: creates a
//! `VerticalPodAutoscaler` for each workload that they select. The decisions are in
//! [`vertical::sizing_policies`].
//!
//! * `controller`: observes, plans and writes.
//! * `writer`: the only writes.
//! * `metrics`: metrics of all this.

mod controller;
mod metrics;
mod writer;

pub use controller::{PolicyController, PolicyInputs};
pub use metrics::PolicyMetrics;
