//! Controller of `SizingPolicy` and `ClusterSizingPolicy` objects, which creates a
//! `VerticalPodAutoscaler` for each workload that they select.
//!
//! * `watch`: watches policies once their kinds can be read.
//! * `attempts`: when a failed write is tried again.
//! * `controller`: observes, plans and writes.

mod attempts;
pub(crate) mod controller;
pub(crate) mod watch;
