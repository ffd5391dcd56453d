//! Largest recommendation with which the pods of a workload can be scheduled: free resources of
//! nodes, quotas and limit ranges.
//!
//! * `node_headroom.rs`: free resources of nodes after `DaemonSets` and a margin
//! * `quota.rs`, `ceiling.rs`: limits of a namespace
//! * `division.rs`: division of a limit among containers
//! * `container_maxima.rs`: maximum of each container from all of these

mod ceiling;
mod container_maxima;
mod division;
mod node_headroom;
mod quota;

pub use ceiling::{Ceiling, LimitScope, LimitedValues, limit_range_ceilings};
pub use container_maxima::{ContainerRequests, Fit, FitInput, Maximum, PodRequests};
pub use node_headroom::{CandidateNodes, DaemonSetInfo, NodeHeadroom, NodeHeadrooms, NodeInfo};
pub use quota::QuotaUsage;
