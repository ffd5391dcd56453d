//! Controller of `SizingPolicy` and `ClusterSizingPolicy` objects, which creates a
//! `VerticalPodAutoscaler` for each workload that they select.
//!
//! * `watch`: watches policies once their kinds can be read.
//! * `controller`: observes, plans and writes.

pub(crate) mod controller;
pub(crate) mod watch;
