//! Crane's percentile predictor: percentile of weighted usage, plus margin, over target
//! utilisation.
//!
//! A sample weighs as much as its own value (at least a small minimum), so busy times count more
//! than idle ones. Nothing fades: the half-life that the settings ask for is checked and, as in
//! Crane, without effect. Source: `pkg/prediction/percentile/config.go`, `estimator.go` and
//! `aggregate_signal.go`; the one-off path that recommenders use, in which settings that cannot be
//! read are an error.

use serde::Deserialize;
use thiserror::Error;

use super::duration;
use super::histogram::{Layout, WeightedHistogram};
use crate::BucketsError;

/// The predictor's settings as a `TimeSeriesPrediction` object has them: all texts, empty for a
/// default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PercentileSettings {
    /// Whether all series make one value, instead of one each.
    pub aggregated: bool,
    /// How far back usage counts, such as `7d`.
    pub history_length: String,
    /// How far apart samples are, such as `1m`.
    pub sample_interval: String,
    /// Share of usage added as safety margin.
    pub margin_fraction: String,
    /// How much of a request is to be used.
    pub target_utilization: String,
    /// Which percentile, as a fraction.
    pub percentile: String,
    /// The least that a sample weighs.
    pub min_sample_weight: String,
    /// The buckets.
    pub histogram: HistogramSettings,
}

/// The buckets as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistogramSettings {
    /// The largest value.
    pub max_value: String,
    /// Weight from which on a bucket at either end counts.
    pub epsilon: String,
    /// Checked, without effect.
    pub half_life: String,
    /// Width of all buckets.
    pub bucket_size: String,
    /// Width of the first bucket, where they grow.
    pub first_bucket_size: String,
    /// By which share of its width a bucket is wider than the one before.
    pub bucket_size_growth_ratio: String,
}

/// Why settings cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PercentileError {
    /// A text that is no duration.
    #[error("{0} is not a duration: {1:?}")]
    Duration(&'static str, String),
    /// A text that is no number, or one out of range.
    #[error("{0} is not a number in its range: {1:?}")]
    Number(&'static str, String),
    /// Buckets that cannot be made.
    #[error("histogram: {0}")]
    Buckets(#[from] BucketsError),
}

/// Settings that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct PercentilePredictor {
    /// Whether all series make one value.
    pub aggregated: bool,
    /// How far back usage counts.
    pub(super) history_ns: i64,
    pub(super) layout: Layout,
    pub(super) min_sample_weight: f64,
    percentile: f64,
    margin_fraction: f64,
    target_utilization: f64,
}

impl PercentilePredictor {
    /// Reads the settings.
    pub fn parse(settings: &PercentileSettings) -> Result<Self, PercentileError> {
        let written = &settings.histogram;
        positive_duration("sampleInterval", &settings.sample_interval)?;
        positive_duration("halfLife", &written.half_life)?;
        let fraction = number("percentile", &settings.percentile, 0.99, |value| {
            (0.0..=1.0).contains(&value)
        })?;
        Ok(Self {
            aggregated: settings.aggregated,
            history_ns: positive_duration("historyLength", &settings.history_length)?,
            layout: layout(written)?,
            min_sample_weight: number(
                "minSampleWeight",
                &settings.min_sample_weight,
                1e-5,
                |value| value >= 0.0,
            )?,
            percentile: fraction,
            margin_fraction: number("marginFraction", &settings.margin_fraction, 0.0, |value| {
                value >= 0.0
            })?,
            target_utilization: number(
                "targetUtilization",
                &settings.target_utilization,
                1.0,
                |value| value > 0.0,
            )?,
        })
    }

    /// Adds a sample with its weight.
    pub fn add(&self, histogram: &mut WeightedHistogram, value: f64) {
        histogram.add(&self.layout, value, value.max(self.min_sample_weight));
    }

    /// The prediction; 0 for an empty histogram.
    pub fn predict(&self, histogram: &WeightedHistogram) -> f64 {
        let percentile = histogram.percentile(&self.layout, self.percentile);
        percentile * (1.0 + self.margin_fraction) / self.target_utilization
    }

    /// Whether a history that was kept for the other predictor serves this one as well.
    pub(super) fn keeps_history_like(&self, other: &Self) -> bool {
        self.history_ns == other.history_ns
            && self.layout == other.layout
            && self.min_sample_weight.to_bits() == other.min_sample_weight.to_bits()
    }
}

/// Growing buckets where all their settings are there, else linear ones, else a hundred units in
/// tenths.
fn layout(written: &HistogramSettings) -> Result<Layout, PercentileError> {
    let positive = |value: f64| value > 0.0;
    let max = |default| number("maxValue", &written.max_value, default, positive);
    let epsilon = number("epsilon", &written.epsilon, 1e-10, positive)?;
    let has_max = !written.max_value.is_empty();
    let grows =
        !written.bucket_size_growth_ratio.is_empty() && !written.first_bucket_size.is_empty();
    if grows && has_max {
        let growth = number(
            "bucketSizeGrowthRatio",
            &written.bucket_size_growth_ratio,
            0.0,
            positive,
        )?;
        let first = number("firstBucketSize", &written.first_bucket_size, 0.0, positive)?;
        return Ok(Layout::exponential(
            max(0.0)?,
            first,
            1.0 + growth,
            epsilon,
        )?);
    }
    if !written.bucket_size.is_empty() && has_max {
        let size = number("bucketSize", &written.bucket_size, 0.0, positive)?;
        return Ok(Layout::linear(max(0.0)?, size, epsilon)?);
    }
    Ok(Layout::linear(100.0, 0.1, 1e-10)?)
}

fn positive_duration(field: &'static str, text: &str) -> Result<i64, PercentileError> {
    duration::parse(text)
        .filter(|length| *length > 0)
        .ok_or_else(|| PercentileError::Duration(field, text.to_owned()))
}

fn number(
    field: &'static str,
    text: &str,
    default: f64,
    in_range: impl Fn(f64) -> bool,
) -> Result<f64, PercentileError> {
    if text.is_empty() {
        return Ok(default);
    }
    let parsed = text
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && in_range(*value));
    parsed.ok_or_else(|| PercentileError::Number(field, text.to_owned()))
}
