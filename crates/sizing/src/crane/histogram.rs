//! Histogram over linear or exponential buckets, without decay. Only buckets with weight take
//! memory.
//!
//! Source: VPA 0.10 `pkg/recommender/util/histogram.go` and `histogram_options.go`, the version
//! that Crane uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Buckets, BucketsError, packed};

/// Maximum number of linear buckets: 100 GB in steps of 5 MB.
const MAX_BUCKETS: f64 = 20_000.0;

/// Bucket boundaries, and the minimum weight that counts at either end.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    scale: Scale,
    epsilon: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Scale {
    /// Bucket n starts at `n * size`.
    Linear { size: f64, last: u16 },
    /// Bucket n is `ratio` times as wide as the previous one.
    Exponential(Arc<Buckets>),
}

impl Layout {
    /// Equal buckets up to `max`.
    pub fn linear(max: f64, size: f64, epsilon: f64) -> Result<Self, BucketsError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !(positive(max) && positive(size) && positive(epsilon)) {
            return Err(BucketsError::OutOfRange);
        }
        let last = (max / size).ceil();
        if last > MAX_BUCKETS {
            return Err(BucketsError::TooMany);
        }
        Ok(Self {
            scale: Scale::Linear {
                size,
                last: last as u16,
            },
            epsilon,
        })
    }

    /// Growing buckets up to `max`. The first has `first_size`, and each next one is `ratio` times
    /// as wide.
    pub fn exponential(
        max: f64,
        first_size: f64,
        ratio: f64,
        epsilon: f64,
    ) -> Result<Self, BucketsError> {
        if !(epsilon.is_finite() && epsilon > 0.0) {
            return Err(BucketsError::OutOfRange);
        }
        let buckets = Buckets::exponential(max, first_size, ratio)?;
        Ok(Self {
            scale: Scale::Exponential(Arc::new(buckets)),
            epsilon,
        })
    }

    /// Text that two layouts share if and only if they are equal.
    pub(super) fn shape(&self) -> String {
        let epsilon = self.epsilon;
        match &self.scale {
            Scale::Linear { size, last } => format!("linear {size} {last} {epsilon}"),
            Scale::Exponential(buckets) => {
                let (first, last) = (buckets.end(0), buckets.count());
                format!("exponential {first} {} {last} {epsilon}", buckets.end(1))
            }
        }
    }

    /// The bucket of a value; the first or last one for values out of range.
    fn find(&self, value: f64) -> u16 {
        match &self.scale {
            Scale::Linear { size, last } => ((value / size) as u16).min(*last),
            Scale::Exponential(buckets) => buckets.find(value) as u16,
        }
    }

    fn end(&self, bucket: u16) -> f64 {
        match &self.scale {
            Scale::Linear { size, last } => size * f64::from(bucket.saturating_add(1).min(*last)),
            Scale::Exponential(buckets) => buckets.end(usize::from(bucket)),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WeightedHistogram {
    #[serde(with = "packed::amounts")]
    weights: BTreeMap<u16, f64>,
    total: f64,
}

impl WeightedHistogram {
    /// Adds weight at a value. Ignores negative weights and values that are not finite.
    pub fn add(&mut self, layout: &Layout, value: f64, weight: f64) {
        if value.is_finite() && weight.is_finite() && weight >= 0.0 {
            *self.weights.entry(layout.find(value)).or_default() += weight;
            self.total += weight;
        }
    }

    pub fn buckets(&self) -> usize {
        self.weights.len()
    }

    /// Whether samples can lead to this histogram.
    pub(super) fn is_valid(&self) -> bool {
        let mut weights = self.weights.values().chain([&self.total]);
        weights.all(|weight| weight.is_finite() && *weight >= 0.0)
    }

    /// Adds all weights of another histogram of the same layout.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, weight) in &other.weights {
            *self.weights.entry(*bucket).or_default() += weight;
        }
        self.total += other.total;
    }

    /// The end of the bucket in which the share `fraction` (0 to 1) of the total weight is reached;
    /// 0 if empty.
    pub fn percentile(&self, layout: &Layout, fraction: f64) -> f64 {
        let visible =
            |(bucket, weight): (&u16, &f64)| (*weight >= layout.epsilon).then_some(*bucket);
        let Some(first) = self.weights.iter().find_map(visible) else {
            return 0.0;
        };
        let last = self.weights.iter().rev().find_map(visible).unwrap_or(first);
        let threshold = fraction * self.total;
        let mut sum = 0.0;
        for (bucket, weight) in self.weights.range(first..last) {
            sum += weight;
            if sum >= threshold {
                return layout.end(*bucket);
            }
        }
        layout.end(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(samples: &[(f64, f64)], fraction: f64, expected: f64) {
        let layout = Layout::linear(10.0, 1.0, 1e-3).expect("a layout");
        let mut histogram = WeightedHistogram::default();
        for (value, weight) in samples {
            histogram.add(&layout, *value, *weight);
        }
        let found = histogram.percentile(&layout, fraction);
        assert!(
            (found - expected).abs() < 1e-12,
            "{samples:?} at {fraction}"
        );
    }

    #[test]
    fn a_percentile_is_the_end_of_its_bucket_and_the_last_bucket_gives_its_start() {
        check(&[], 0.5, 0.0);
        check(&[(0.0, 1.0)], 0.5, 1.0);
        check(&[(1.5, 1.0), (3.5, 1.0)], 0.5, 2.0);
        check(&[(1.5, 1.0), (3.5, 1.0)], 0.51, 4.0);
        check(&[(99.0, 1.0)], 0.5, 10.0);
        check(&[(-1.0, 1.0)], 0.5, 1.0);
        check(&[(1.5, 1e-4), (3.5, 1.0)], 0.0, 4.0);
    }

    #[test]
    fn a_layout_of_too_many_buckets_is_refused() {
        assert_eq!(Layout::linear(1e12, 1.0, 1e-3), Err(BucketsError::TooMany));
        let invalid = [
            Layout::linear(1.0, 0.0, 1e-3),
            Layout::exponential(1.0, 0.1, 1.1, f64::NAN),
        ];
        assert_eq!(invalid, [const { Err(BucketsError::OutOfRange) }; 2]);
    }
}
