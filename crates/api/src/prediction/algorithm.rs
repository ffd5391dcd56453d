//! Prediction algorithms. Numbers and durations are strings, as in Crane.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prediction algorithm and its settings.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Algorithm {
    /// Name of the algorithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm_type: Option<AlgorithmKind>,
    /// Settings of dsp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dsp: Option<Dsp>,
    /// Settings of percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile: Option<Percentile>,
}

/// Name of an algorithm.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub enum AlgorithmKind {
    /// Continues daily or weekly patterns.
    Dsp,
    /// A constant: a percentile of the history.
    Percentile,
}

/// Settings of dsp.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Dsp {
    /// Time between two samples, at most 1h.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sample_interval: String,
    /// Length of the history, at least 48h.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub history_length: String,
    /// Estimators, of which the most accurate on past data is used; at most 32 of both kinds
    /// together. Absent means the built-in ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimators: Option<Estimators>,
}

/// Estimators of a periodic series.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Estimators {
    /// The maximum at the same time of earlier periods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub max_value: Vec<MaxValue>,
    /// The strongest frequencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub fft: Vec<Fft>,
}

/// The maximum at the same time of earlier periods.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MaxValue {
    /// Safety margin as a fraction of the value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub margin_fraction: String,
}

/// The strongest frequencies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Fft {
    /// Safety margin as a fraction of the value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub margin_fraction: String,
    /// Minimum amplitude of a frequency to keep.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub low_amplitude_threshold: String,
    /// Maximum frequency to keep, in hertz.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub high_frequency_threshold: String,
    /// Minimum number of frequencies to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_num_of_spectrum_items: Option<i32>,
    /// Maximum number of frequencies to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_num_of_spectrum_items: Option<i32>,
}

/// Settings of percentile.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Percentile {
    /// Whether all series share one histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregated: Option<bool>,
    /// Length of the history.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub history_length: String,
    /// Time between two samples.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sample_interval: String,
    /// Minimum weight of a sample. The weight of a sample is its value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub min_sample_weight: String,
    /// Safety margin as a fraction of the value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub margin_fraction: String,
    /// Percentile as a fraction.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub percentile: String,
    /// Target utilization as a fraction. The result is divided by it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_utilization: String,
    /// Buckets of the histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
}

/// Buckets of a histogram.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Histogram {
    /// Approximate start of the last bucket.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub max_value: String,
    /// Minimum weight that counts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub epsilon: String,
    /// Accepted for compatibility with Crane, without effect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub half_life: String,
    /// Width of equal buckets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bucket_size: String,
    /// Width of the first of growing buckets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first_bucket_size: String,
    /// Growth of the width from bucket to bucket, as a fraction.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bucket_size_growth_ratio: String,
}
