//! Crane's percentile predictor: a constant. As in Crane, samples do not age out.

use std::collections::BTreeMap;

use model::ForecastSeries;
use sizing::{PercentilePredictor, WeightedHistogram};

use super::{ForecastRange, floor};
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
        let first_second = floor(range.now, self.step);
        let count = (range.until - first_second).max(0) / i64::from(self.step.max(1)) + 1;
        // All values are equal, so longer steps lose nothing.
        let factor = u32::try_from(count)
            .unwrap_or(u32::MAX)
            .div_ceil(MAX_SERIES_POINTS as u32);
        let count = usize::try_from(count)
            .unwrap_or_default()
            .div_ceil(factor.max(1) as usize);
        let values = vec![self.predictor.predict(&self.histogram); count];
        let step_seconds = self.step.saturating_mul(factor.max(1));
        Ok(ForecastSeries {
            labels: BTreeMap::new(),
            first_second,
            step_seconds,
            values,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.histogram.buckets() * BUCKET_BYTES
    }
}
