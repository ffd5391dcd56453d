//! Controller of `SizingPolicy` and `ClusterSizingPolicy` objects, which creates a
//! `VerticalPodAutoscaler` for each workload that they select.
//!
//! * `watch`: watches policies once their kinds can be read.
//! * `attempts`: when a failed write is tried again.
//! * `keep`: sees, plans and writes, for one term of leadership.

mod attempts;
pub(crate) mod keep;
pub(crate) mod watch;
