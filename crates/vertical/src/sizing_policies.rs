//! `SizingPolicy` and `ClusterSizingPolicy` objects: a `VerticalPodAutoscaler` for each workload
//! that they select.
//!
//! * `select`: which policy has which workload.
//! * `desired`: the object that a workload gets, and the patch that makes the one that is there so.
//! * `plan`: from what is seen to what is to be written.
//! * `wave`: which workloads are updated first.
//! * `status`: counts and conditions of a policy.
//!
//! Three things never happen: an object is written that no policy of ours owns; a workload with a
//! VPA of another owner gets a second one; an object is left behind. The API server removes what a
//! deleted policy owned.

pub mod desired;
mod parsed;
pub mod plan;
mod select;
pub mod status;
#[cfg(test)]
mod tests;
mod wave;
