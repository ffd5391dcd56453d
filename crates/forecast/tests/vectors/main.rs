//! Comparison with inputs and outputs recorded by running Crane.
//!
//! The recording is in `tests/vectors/crane` of the repository; `PLIMSOLL_VECTORS` names another folder of the same form.

mod autocorrelation;
mod cases;
mod error;
mod estimators;
mod forecast;
mod preprocess;
mod source;
mod summary;
