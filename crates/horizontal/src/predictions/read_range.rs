//! Ranges and chunks of a history read, and their results.

use std::collections::BTreeMap;

use promql::Excess;

use super::model::Labels;

/// Intervals of work on one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadIntervals {
    pub read_seconds: i64,
    /// Seconds between fits of Crane's DSP predictor.
    pub refit_seconds: i64,
}

/// Points to read, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRange {
    pub first: i64,
    pub last: i64,
    /// Seconds between points.
    pub step: u32,
}

/// Part of a range that is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadChunk {
    pub(super) range: ReadRange,
    pub(super) is_last: bool,
}

/// Samples of each series, by its labels.
pub type Samples = BTreeMap<Labels, Vec<(i64, f64)>>;

/// Reason for which a read failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFailure {
    /// Text for the status of the prediction.
    pub why: String,
    /// The bound that the answer exceeds.
    pub excess: Option<Excess>,
    /// Causes and query, for the log only.
    pub details: String,
}

impl ReadFailure {
    /// A failure that is not due to a limit.
    pub fn refused(why: String) -> Self {
        Self {
            why,
            excess: None,
            details: String::new(),
        }
    }
}
