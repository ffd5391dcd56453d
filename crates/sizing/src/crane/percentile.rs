//! Crane's percentile predictor: percentile of weighted usage, plus margin, over target
//! utilisation.
//!
//! The weight of a sample is its own value (at least a small minimum), so busy times count more
//! than idle ones. Nothing decays: as in Crane, the half-life setting is validated and has no
//! effect. Source: `pkg/prediction/percentile/config.go`, `estimator.go` and `aggregate_signal.go`;
//! the one-off path of recommenders, in which invalid settings are an error.

use model::MethodStep;
use serde::Deserialize;
use thiserror::Error;

use super::duration;
use super::histogram::{Layout, WeightedHistogram};
use crate::BucketsError;

/// Settings of the predictor in a `TimeSeriesPrediction`: strings, empty for a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PercentileSettings {
    /// Whether all series form one value, instead of one each.
    pub aggregated: bool,
    /// Length of the history, such as `7d`.
    pub history_length: String,
    /// Distance between samples, such as `1m`.
    pub sample_interval: String,
    pub margin_fraction: String,
    /// Target utilisation of a request.
    pub target_utilization: String,
    /// Percentile as a fraction.
    pub percentile: String,
    pub min_sample_weight: String,
    pub histogram: HistogramSettings,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistogramSettings {
    pub max_value: String,
    /// Minimum weight of a bucket at either end.
    pub epsilon: String,
    /// Validated, without effect.
    pub half_life: String,
    /// Width of equal buckets.
    pub bucket_size: String,
    /// Width of the first of growing buckets.
    pub first_bucket_size: String,
    /// Growth of the width from bucket to bucket, as a share.
    pub bucket_size_growth_ratio: String,
}

#[derive(Clone, Debug, PartialEq, Error)]
pub enum PercentileError {
    #[error("{0} is not a duration: {1:?}")]
    Duration(&'static str, String),
    #[error("{0} is not a number in its range: {1:?}")]
    Number(&'static str, String),
    #[error("histogram: {0}")]
    Buckets(#[from] BucketsError),
}

#[derive(Clone, Debug, PartialEq)]
pub struct PercentilePredictor {
    /// Whether all series form one value.
    pub aggregated: bool,
    /// Length of the history.
    pub(super) history_ns: i64,
    pub(super) layout: Layout,
    pub(super) min_sample_weight: f64,
    percentile: f64,
    margin_fraction: f64,
    target_utilization: f64,
}

impl PercentilePredictor {
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

    pub fn add(&self, histogram: &mut WeightedHistogram, value: f64) {
        histogram.add(&self.layout, value, value.max(self.min_sample_weight));
    }

    /// The prediction; 0 for an empty histogram.
    pub fn predict(&self, histogram: &WeightedHistogram) -> f64 {
        self.usage(histogram) * (1.0 + self.margin_fraction) / self.target_utilization
    }

    fn usage(&self, histogram: &WeightedHistogram) -> f64 {
        histogram.percentile(&self.layout, self.percentile)
    }

    /// The steps of the prediction. Amounts are multiplied by `factor` to be in `unit`.
    pub(super) fn explain(
        &self,
        histogram: &WeightedHistogram,
        factor: f64,
        unit: &str,
    ) -> Vec<MethodStep> {
        let usage = self.usage(histogram) * factor;
        let with_margin = usage * (1.0 + self.margin_fraction);
        let prediction = self.predict(histogram) * factor;
        vec![
            MethodStep::number("percentile", self.percentile, ""),
            MethodStep::number("usage", usage, unit),
            MethodStep::number("margin-fraction", self.margin_fraction, ""),
            MethodStep::number("with-margin", with_margin, unit),
            MethodStep::number("target-utilization", self.target_utilization, ""),
            MethodStep::number("prediction", prediction, unit),
        ]
    }

    /// Text that two predictors share if and only if they share their history.
    pub(super) fn shape(&self) -> String {
        let (length, weight) = (self.history_ns, self.min_sample_weight);
        format!("{length} {} {weight}", self.layout.shape())
    }

    /// Whether a history recorded for the other predictor is usable for this one.
    pub(super) fn shares_history_with(&self, other: &Self) -> bool {
        self.history_ns == other.history_ns
            && self.layout == other.layout
            && self.min_sample_weight.to_bits() == other.min_sample_weight.to_bits()
    }
}

/// Growing buckets if all their settings are present, else linear ones, else 0 to 100 in steps of a
/// tenth.
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
