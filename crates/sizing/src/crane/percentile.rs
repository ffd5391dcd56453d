//! Crane's percentile predictor: percentile of weighted usage, plus margin, over target
//! utilisation.
//!
//! The weight of a sample is its own value (at least a small minimum), so busy times count more
//! than idle ones. Nothing decays: as in Crane, the half-life setting is validated and has no
//! effect. Source: `pkg/prediction/percentile/config.go`, `estimator.go` and `aggregate_signal.go`;
//! the one-off path of recommenders, in which invalid settings are an error.

use std::ops::{Bound, RangeBounds};

use model::MethodStep;
use serde::Deserialize;

use super::histogram::{Layout, WeightedHistogram};
use super::parse_duration;
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

#[derive(Clone, Debug, PartialEq)]
pub struct PercentilePredictor {
    /// Whether all series form one value.
    pub aggregated: bool,
    pub(super) history_ns: i64,
    pub(super) layout: Layout,
    pub(super) min_sample_weight: f64,
    percentile: f64,
    margin_fraction: f64,
    target_utilization: f64,
}

impl PercentilePredictor {
    pub fn parse(settings: &PercentileSettings) -> Result<Self, String> {
        let written = &settings.histogram;
        positive_duration("sampleInterval", &settings.sample_interval)?;
        positive_duration("halfLife", &written.half_life)?;
        Ok(Self {
            aggregated: settings.aggregated,
            history_ns: positive_duration("historyLength", &settings.history_length)?,
            layout: layout(written)?,
            min_sample_weight: number("minSampleWeight", &settings.min_sample_weight, 1e-5, 0.0..)?,
            percentile: number("percentile", &settings.percentile, 0.99, 0.0..=1.0)?,
            margin_fraction: number("marginFraction", &settings.margin_fraction, 0.0, 0.0..)?,
            target_utilization: number(
                "targetUtilization",
                &settings.target_utilization,
                1.0,
                POSITIVE,
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
}

/// Growing buckets if all their settings are present, else linear ones, else 0 to 100 in steps of a
/// tenth.
fn layout(written: &HistogramSettings) -> Result<Layout, String> {
    let HistogramSettings {
        max_value,
        bucket_size: size,
        first_bucket_size: first,
        bucket_size_growth_ratio: growth,
        ..
    } = written;
    let positive = |field, text: &str| number(field, text, 0.0, POSITIVE);
    let of_histogram = |error: BucketsError| format!("histogram: {error}");
    let epsilon = number("epsilon", &written.epsilon, 1e-10, POSITIVE)?;
    let has_max = !max_value.is_empty();
    if has_max && !growth.is_empty() && !first.is_empty() {
        let ratio = 1.0 + positive("bucketSizeGrowthRatio", growth)?;
        let first = positive("firstBucketSize", first)?;
        let max = positive("maxValue", max_value)?;
        return Layout::exponential(max, first, ratio, epsilon).map_err(of_histogram);
    }
    if has_max && !size.is_empty() {
        let size = positive("bucketSize", size)?;
        let max = positive("maxValue", max_value)?;
        return Layout::linear(max, size, epsilon).map_err(of_histogram);
    }
    Layout::linear(100.0, 0.1, 1e-10).map_err(of_histogram)
}

/// Numbers above zero.
const POSITIVE: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Unbounded);

fn positive_duration(field: &'static str, text: &str) -> Result<i64, String> {
    parse_duration(text)
        .filter(|length| *length > 0)
        .ok_or_else(|| format!("{field} is not a duration: {text:?}"))
}

fn number(
    field: &'static str,
    text: &str,
    default: f64,
    range: impl RangeBounds<f64>,
) -> Result<f64, String> {
    if text.is_empty() {
        return Ok(default);
    }
    let parsed = text
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && range.contains(value));
    parsed.ok_or_else(|| format!("{field} is not a number in its range: {text:?}"))
}
