//! Decisions of the recommender about `VerticalPodAutoscaler` objects.
//!
//! Pure: no input or output, no clock. Time is an argument. What is where:
//!
//! | decision | file |
//! |---|---|
//! | pods, histories and VPAs in memory; recommendation of one VPA | `cluster_state.rs`, `cluster_state/` |
//! | state of one recommender; status of all its objects | `recommender_state.rs`, `recommender_state/` |
//! | status of one object: recommendation, conditions and their changes | `status.rs`, `status/` |
//! | recommendations capped to what can be scheduled | `schedulable.rs`, `schedulable/` |
//! | resources that an HPA scales by, left out | `hpa_conflict.rs` |
//! | policies and annotations of an object | `resource_policy.rs` |
//! | checkpoints: name, content, which to write, which to delete | `checkpoint.rs`, `checkpoint/` |
//! | history from Prometheus: what is missing, how it is rebuilt | `backfill.rs`, `backfill/` |
//! | VPA objects of sizing policies, and the policies' status | `sizing_policies.rs`, `sizing_policies/` |
//! | changes that are written at once, and those that wait | `refresh.rs` |
//! | order in which statuses are written | `write_queue.rs` |

pub mod applied;
pub mod backfill;
pub mod checkpoint;
mod cluster_state;
#[cfg(test)]
mod fixture;
pub mod hpa_conflict;
pub mod recommender_state;
pub mod refresh;
pub mod resource_policy;
pub mod schedulable;
pub mod sizing_policies;
pub mod status;
pub mod write_queue;

pub use cluster_state::{Accepted, ClusterState, MAX_CONTAINERS, PodSpec, SampleError, VpaSpec};
