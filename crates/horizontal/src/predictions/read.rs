//! Reads of a history: the range of one, its samples or the reason for its failure.

use std::collections::BTreeMap;

use super::model::Labels;

/// How often is looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadIntervals {
    /// At new samples.
    pub read_seconds: i64,
    /// At all samples, by Crane's DSP predictor.
    pub refit_seconds: i64,
}

/// Points that are asked for, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRange {
    /// First point.
    pub first: i64,
    /// Last point.
    pub last: i64,
    /// Seconds between points.
    pub step: u32,
}

/// The part of a span that is asked for in one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadChunk {
    pub(super) range: ReadRange,
    /// Whether the span ends with it.
    pub(super) is_last: bool,
}

/// What was found: samples by the labels of their series.
pub type Samples = BTreeMap<Labels, Vec<(i64, f64)>>;

/// The bound that an answer exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The time that the store takes.
    Time,
    /// The number of points, series or bytes.
    Size,
}

/// The reason for which a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFailure {
    pub why: String,
    /// The bound that the answer exceeds.
    pub excess: Option<Excess>,
    /// The causes and the query. They are for the log only.
    pub details: String,
}

impl ReadFailure {
    pub fn refused(why: String) -> Self {
        Self {
            why,
            excess: None,
            details: String::new(),
        }
    }
}
