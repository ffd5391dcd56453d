//! Histogram in the form of a checkpoint (format v3), and the reasons for refusing a checkpoint.
//!
//! Source: upstream `histogram.go` (`SaveToChekpoint`, `LoadFromCheckpoint`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use thiserror::Error;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramCheckpoint {
    pub reference_timestamp: Option<Timestamp>,
    /// Weights relative to the largest one, which is 10000.
    pub bucket_weights: BTreeMap<i64, u32>,
    /// Sum of the weights before scaling.
    pub total_weight: f64,
}

#[derive(Clone, Debug, PartialEq, Error)]
pub enum CheckpointError {
    #[error("unsupported checkpoint version {0:?}")]
    Version(String),
    #[error("totalWeight {0} is out of range")]
    TotalWeight(f64),
    #[error("bucketWeights has no bucket {0}")]
    Bucket(i64),
    #[error("totalSamplesCount {0} is negative")]
    SamplesCount(i64),
    #[error("{field} {time} is too far in the future")]
    Future {
        field: &'static str,
        time: Timestamp,
    },
    #[error("no VPA object of this name")]
    UnknownVpa,
}
