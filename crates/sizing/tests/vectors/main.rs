//! Comparison with inputs and outputs recorded by running upstream's Go programs: one test per kind
//! of recording.
//!
//! `testing::vectors` reads the recordings.

mod buckets;
mod capping_pod;
mod capping_policy;
mod crane_percentile;
mod crane_resource;
mod crane_specifications;
mod format;
mod histogram;
mod limits;
mod objects;
