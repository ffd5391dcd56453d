//! By which algorithm a metric is predicted. Numbers and durations are texts, as in Crane.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An algorithm and its settings.
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
    /// What repeats by the day or week goes on.
    Dsp,
    /// A percentile of what was, for all time to come.
    Percentile,
}

/// Settings of dsp.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Dsp {
    /// Time between two samples, at most 1h.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sample_interval: String,
    /// How far back is looked, at least 48h.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub history_length: String,
    /// Ways to go on, of which the best on past data is taken; at most 32 of both kinds together.
    /// Absent means the built-in ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimators: Option<Estimators>,
}

/// Ways to go on with what repeats.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Estimators {
    /// By the largest value at the same time of earlier periods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub max_value: Vec<MaxValue>,
    /// By the strongest frequencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub fft: Vec<Fft>,
}

/// By the largest value at the same time of earlier periods.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MaxValue {
    /// What is added, as a fraction of the value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub margin_fraction: String,
}

/// By the strongest frequencies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Fft {
    /// What is added, as a fraction of the value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub margin_fraction: String,
    /// Frequencies with a smaller amplitude are left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub low_amplitude_threshold: String,
    /// Frequencies above this one, in hertz, are left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub high_frequency_threshold: String,
    /// At least so many frequencies stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_num_of_spectrum_items: Option<i32>,
    /// At most so many frequencies stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_num_of_spectrum_items: Option<i32>,
}

/// Settings of percentile.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Percentile {
    /// Whether all series go into one histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregated: Option<bool>,
    /// How far back is looked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub history_length: String,
    /// Time between two samples.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sample_interval: String,
    /// The least weight of a sample; otherwise its value is its weight.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub min_sample_weight: String,
    /// What is added, as a fraction of the value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub margin_fraction: String,
    /// Which percentile, as a fraction.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub percentile: String,
    /// Which part of the result is to be used; the result is divided by it.
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
    /// Where the last bucket begins, about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub max_value: String,
    /// Weights below this count as none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub epsilon: String,
    /// Accepted, as by Crane, without an effect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub half_life: String,
    /// Width of buckets that are all alike.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bucket_size: String,
    /// Width of the first of growing buckets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first_bucket_size: String,
    /// By how much each bucket is wider than the one before, as a fraction.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bucket_size_growth_ratio: String,
}
