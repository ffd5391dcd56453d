//! Comparison with inputs and outputs recorded by running Crane.
//!
//! `testing::vectors` reads the recordings.

mod approx;
mod estimators;
mod forecast;
mod short_lists;
mod source;
mod summary;
