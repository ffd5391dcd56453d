//! Comparison with inputs and outputs recorded by running Crane.
//!
//! `testing::vectors` reads the recordings.

mod autocorrelation;
mod close;
mod error;
mod estimators;
mod forecast;
mod preprocess;
mod source;
mod summary;
