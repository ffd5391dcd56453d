//! Result types: forecasts, and the errors in their place.

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    pub from: Timestamp,
    pub length: SignedDuration,
    /// End of the newest known slot.
    pub as_of: Timestamp,
    /// Mean value during the slot.
    pub expected: f64,
    /// Value that is not exceeded with 90 % probability.
    pub p90: f64,
    /// Value that is not exceeded with 95 % probability.
    pub p95: f64,
    /// Value that is not exceeded with 99 % probability.
    pub p99: f64,
    /// Weights of the ensemble members, in the order of `members.rs`. Their sum is 1.
    pub weights: [f64; 7],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ForecastError {
    #[error(
        "step: a day is not a whole number of slots of {step_seconds} s, or they are longer than an hour"
    )]
    Step { step_seconds: u32 },
    #[error(
        "horizon: {seconds} s is not between one second and the longest configured horizon, at most a day"
    )]
    Horizon { seconds: u32 },
    #[error("there are no samples")]
    NoSamples,
    #[error(
        "too little history: {measured_seconds} s measured within {history_seconds} s, needed {needed_seconds} s, \
         at least half of them measured"
    )]
    TooLittle {
        /// Time from the first sample to the newest slot.
        history_seconds: u64,
        /// Measured part of it.
        measured_seconds: u64,
        needed_seconds: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ObserveError {
    #[error("the sample is older than the last sample of the forecast")]
    Late,
    #[error("the value is not a finite number")]
    NotFinite,
    /// No samples for fourteen days: the history must be learnt again.
    #[error("there was no sample for fourteen days")]
    Gap,
}
