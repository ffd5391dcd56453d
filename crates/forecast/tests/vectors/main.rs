//! Comparison with inputs and outputs recorded by running Crane.
//!
//! `testing::vectors` reads the recordings.

mod approx;
mod autocorrelation;
mod error;
mod estimators;
mod forecast;
mod preprocess;
mod source;
mod summary;
