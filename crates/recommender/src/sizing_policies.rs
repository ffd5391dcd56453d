//! `SizingPolicy` and `ClusterSizingPolicy` objects: a `VerticalPodAutoscaler` for each workload
//! that they select.
//!
//! * `select`: which policy has which workload.
//! * `wanted`: the object that a workload gets, and the patch that makes the one that is there so.
//! * `plan`: from what is seen to what is to be written, as a pure function.
//! * `status`: what is said of a policy.
//! * `watch`: sees policies once their kinds can be read.
//! * `attempts`: when a write that failed is tried again.
//! * `keep`: sees, plans and writes, for one term of leadership.
//!
//! Three things never happen: an object is written that no policy of ours owns; an object of
//! somebody else is joined by a second one for the same workload; an object is left behind. The API
//! server removes what a deleted policy owned.

mod attempts;
pub(crate) mod keep;
pub(crate) mod name;
pub(crate) mod plan;
mod select;
pub(crate) mod status;
#[cfg(test)]
mod tests;
mod usable;
pub(crate) mod wanted;
pub(crate) mod watch;
