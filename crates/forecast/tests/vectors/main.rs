//! Comparison with inputs and outputs recorded by running Crane.
//!
//! Where the recordings are is said in `crates/recordings`.

mod autocorrelation;
mod close;
mod error;
mod estimators;
mod forecast;
mod preprocess;
mod source;
mod summary;
