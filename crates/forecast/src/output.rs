//! Result types: forecasts, and the errors in their place.

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

/// Forecast of one slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Start of the slot.
    pub from: Timestamp,
    /// Length of the slot.
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
    /// Weights of the ensemble members. Their sum is 1.
    pub weights: [(Member, f64); 7],
}

/// A member of the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    Last,
    /// The same time yesterday.
    Yesterday,
    /// The same time last week.
    LastWeek,
    /// The median of the last seven days at that time.
    Median,
    /// The mean of yesterday, last week and the median.
    Blend,
    /// The mean of the last seven days at that time, times the level of the last hour.
    Level,
    /// The profile plus the regression of the present deviation from it.
    Regression,
}

impl Member {
    pub(crate) const ALL: [Self; 7] = [
        Self::Last,
        Self::Yesterday,
        Self::LastWeek,
        Self::Median,
        Self::Blend,
        Self::Level,
        Self::Regression,
    ];
}

/// Reasons for a missing forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ForecastError {
    /// The sampling step does not fit a day.
    #[error(
        "step: a day is not a whole number of slots of {step_seconds} s, or they are longer than an hour"
    )]
    Step {
        /// Distance between samples in seconds.
        step_seconds: u32,
    },
    /// The horizon is not configured, or not between one second and a day.
    #[error(
        "horizon: {seconds} s is not between one second and the longest configured horizon, at most a day"
    )]
    Horizon {
        /// The requested horizon in seconds.
        seconds: u32,
    },
    /// The history has no samples.
    #[error("there are no samples")]
    NoSamples,
    /// The history is too short, or has too many gaps, for this horizon.
    #[error(
        "too little history: {measured_seconds} s measured within {history_seconds} s, needed {needed_seconds} s, \
         at least half of them measured"
    )]
    TooLittle {
        /// Time from the first sample to the newest slot.
        history_seconds: u64,
        /// Measured part of it.
        measured_seconds: u64,
        /// Minimum length.
        needed_seconds: u64,
    },
}

/// Reasons for refusing a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ObserveError {
    /// The slot of the sample is already complete.
    #[error("the sample is older than the last sample of the forecast")]
    Late,
    /// The value is NaN or infinite.
    #[error("the value is not a finite number")]
    NotFinite,
    /// No samples for fourteen days: the history must be learnt again.
    #[error("there was no sample for fourteen days")]
    Gap,
}
