//! Exponential buckets: bucket b starts at `first * (r^b - 1) / (r - 1)`, so that every bucket is r
//! times as wide as the previous one.
//!
//! Usage is in cores or bytes. Source: upstream `histogram_options.go`
//! (`exponentialHistogramOptions`) and `aggregations_config.go`.

use std::sync::LazyLock;

use thiserror::Error;

use crate::float::{ln, power};

/// Maximum number of buckets, far above any sensible one.
const MAX_BUCKETS: usize = 10_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    first_size: f64,
    ratio_minus_one: f64,
    ln_ratio: f64,
    starts: Box<[f64]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum BucketsError {
    #[error(
        "max value and first bucket size must be positive numbers and the ratio greater than 1"
    )]
    OutOfRange,
    #[error("the histogram would have more than {MAX_BUCKETS} buckets")]
    TooMany,
}

static CPU: LazyLock<Buckets> = LazyLock::new(|| production(1000.0, 0.01));
static MEMORY: LazyLock<Buckets> = LazyLock::new(|| production(1e12, 1e7));

fn production(max: f64, first_size: f64) -> Buckets {
    Buckets::exponential(max, first_size, 1.05).expect("176 buckets of growing size")
}

impl Buckets {
    /// Number of buckets of both resources.
    pub const COUNT: usize = 176;

    /// Buckets for CPU: from 0.01 cores to 1000 cores.
    pub fn cpu() -> &'static Self {
        &CPU
    }

    /// Buckets for memory: from 10 MB to 1 TB.
    pub fn memory() -> &'static Self {
        &MEMORY
    }

    /// Buckets up to `max`. The first has size `first_size`, and each next one is `ratio` times as
    /// large.
    pub fn exponential(max: f64, first_size: f64, ratio: f64) -> Result<Self, BucketsError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !(positive(max) && positive(first_size) && positive(ratio) && ratio > 1.0) {
            return Err(BucketsError::OutOfRange);
        }
        let ratio_minus_one = ratio - 1.0;
        let count = (ln(max * ratio_minus_one / first_size + 1.0) / ln(ratio)).ceil() as usize + 1;
        if count > MAX_BUCKETS {
            return Err(BucketsError::TooMany);
        }
        let start = |bucket| first_size * (power(ratio, bucket) - 1.0) / ratio_minus_one;
        let starts = (0..count as i32)
            .map(|bucket| if bucket == 0 { 0.0 } else { start(bucket) })
            .collect();
        Ok(Self {
            first_size,
            ratio_minus_one,
            ln_ratio: ln(ratio),
            starts,
        })
    }

    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// The bucket of `value`; the first or last one for values out of range.
    pub fn find(&self, value: f64) -> usize {
        if value < self.first_size || value.is_nan() {
            return 0;
        }
        let bucket = ln(value * self.ratio_minus_one / self.first_size + 1.0) / self.ln_ratio;
        (bucket as usize).min(self.count() - 1)
    }

    pub fn start(&self, bucket: usize) -> f64 {
        self.starts[bucket.min(self.count() - 1)]
    }

    pub fn end(&self, bucket: usize) -> f64 {
        self.start(bucket + 1)
    }
}
