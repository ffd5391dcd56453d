//! What a reader gets: a forecast, or why there is none.

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

/// What will be during one slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// When the slot begins.
    pub from: Timestamp,
    /// How long it is.
    pub length: SignedDuration,
    /// The end of the newest slot that was known.
    pub as_of: Timestamp,
    /// The mean value during the slot.
    pub expected: f64,
    /// What is not exceeded nine times of ten.
    pub p90: f64,
    /// What is not exceeded nineteen times of twenty.
    pub p95: f64,
    /// What is not exceeded ninety-nine times of a hundred.
    pub p99: f64,
    /// How much each way to forecast counts, in all one.
    pub parts: [(Part, f64); 7],
}

/// A way to forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The last value.
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
    /// The profile and what is left of the present deviation from it.
    Regression,
}

impl Part {
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

/// Why there is no forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotForecast {
    /// A sampling step that does not fit a day.
    #[error(
        "step: a day is not a whole number of slots of {step_seconds} s, or they are longer than an hour"
    )]
    Step {
        /// How far apart samples come.
        step_seconds: u32,
    },
    /// A horizon that was not planned, or that is not between one second and a day.
    #[error(
        "horizon: {seconds} s is not between one second and the longest horizon asked for, at most a day"
    )]
    Horizon {
        /// How far ahead.
        seconds: u32,
    },
    /// Nothing was measured.
    #[error("there are no samples")]
    NoSamples,
    /// The history is too short, or has too many gaps, for this horizon.
    #[error(
        "too little history: {measured_seconds} s measured within {history_seconds} s, needed are {needed_seconds} s, \
         at least half of them measured"
    )]
    TooLittle {
        /// From the first sample to the newest slot.
        history_seconds: u64,
        /// How much of that was measured.
        measured_seconds: u64,
        /// How long it must be.
        needed_seconds: u64,
    },
}

/// Why a sample was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotObserved {
    /// Its slot is complete.
    #[error("the sample is older than what was forecast from")]
    Late,
    /// It is no number.
    #[error("the value is not a finite number")]
    NotFinite,
    /// Nothing was measured for fourteen days: the history must be learnt anew.
    #[error("there was no sample for fourteen days")]
    Gap,
}
