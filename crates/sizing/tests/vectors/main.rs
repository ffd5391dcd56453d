//! Comparison with inputs and outputs recorded by running upstream's Go programs: one test per kind of recording.
//!
//! The recordings are in `tests/vectors` of the repository; `PLIMSOLL_VECTORS` names another folder of the same form.

mod buckets;
mod capping_pod;
mod capping_policy;
mod cases;
mod crane_percentile;
mod crane_resource;
mod crane_specifications;
mod format;
mod histogram;
mod limits;
mod objects;
mod recommend;
