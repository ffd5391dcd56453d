//! Crane's percentile predictor: a constant. As in Crane, samples do not age out.

use model::ForecastSeries;
use sizing::{PercentilePredictor, WeightedHistogram};

use super::ForecastRange;
use crate::predictions::published_series::MAX_SERIES_POINTS;

/// Memory of a bucket: its number and weight, in a tree.
const BUCKET_BYTES: usize = 24;

#[derive(Debug)]
pub(in crate::predictions) struct Percentile {
    predictor: PercentilePredictor,
    step: u32,
    histogram: WeightedHistogram,
    samples: u64,
}

impl Percentile {
    pub(super) fn new(predictor: PercentilePredictor, step: u32) -> Self {
        Self {
            predictor,
            step,
            histogram: WeightedHistogram::default(),
            samples: 0,
        }
    }

    pub(super) fn append(&mut self, samples: &[(i64, f64)]) {
        for (_, value) in samples {
            self.predictor.add(&mut self.histogram, *value);
            self.samples = self.samples.saturating_add(1);
        }
    }

    pub(super) fn forecast(&self, range: ForecastRange) -> Result<ForecastSeries, String> {
        if self.samples == 0 {
            return Err("there are no samples".to_owned());
        }
        let (first_second, count) = range.points(self.step);
        // All values are equal, so longer steps lose nothing.
        let factor = count.div_ceil(MAX_SERIES_POINTS).max(1);
        let longer = u32::try_from(factor).unwrap_or(u32::MAX);
        Ok(ForecastSeries {
            first_second,
            step_seconds: self.step.saturating_mul(longer),
            values: vec![self.predictor.predict(&self.histogram); count.div_ceil(factor)],
            ..ForecastSeries::default()
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.histogram.buckets() * BUCKET_BYTES
    }
}
