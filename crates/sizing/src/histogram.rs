//! Weights over buckets, and their percentiles.
//!
//! Only buckets between the first and the last one ever used take memory (8 bytes each). Buckets
//! below [`EPSILON`] at the ends have weight but are invisible: they count in the total, but not in
//! percentiles. Source: upstream `pkg/recommender/util/histogram.go`, operation for operation, so
//! that every weight is bit-identical.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Buckets, packed};

/// Minimum visible weight: a thousandth of the weight of one CPU sample.
pub const EPSILON: f64 = 1e-4;

const LAST: u16 = Buckets::COUNT as u16 - 1;

/// Largest weight in a checkpoint.
const SAVED_MAX: f64 = 10_000.0;

/// Weights of the buckets of one resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Weights of the buckets from `offset`; those outside are zero.
    #[serde(with = "packed::numbers")]
    weights: Vec<f64>,
    total: f64,
    offset: u16,
    /// The first visible bucket; the last bucket if none is.
    min: u16,
    /// The last visible bucket; the first bucket if none is.
    max: u16,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            weights: Vec::new(),
            total: 0.0,
            offset: 0,
            min: LAST,
            max: 0,
        }
    }
}

impl Histogram {
    /// Whether no bucket is visible.
    pub fn is_empty(&self) -> bool {
        self.weight(self.min) < EPSILON
    }

    pub fn total(&self) -> f64 {
        self.total
    }

    pub fn weights(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        (self.min..=self.max).map(|bucket| (usize::from(bucket), self.weight(bucket)))
    }

    /// The end of the bucket in which the share `fraction` (0 to 1) of the total weight is reached;
    /// 0 if empty.
    pub fn percentile(&self, buckets: &Buckets, fraction: f64) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        let threshold = fraction * self.total;
        let visible = self
            .visible_window()
            .map_or(&[][..], |(first, last)| &self.weights[first..last]);
        let mut sum = 0.0;
        let before = visible.iter().take_while(|weight| {
            sum += **weight;
            sum < threshold
        });
        buckets.end(usize::from(self.min) + before.count())
    }

    pub(crate) fn add(&mut self, bucket: u16, weight: f64) {
        let held = self.weight_mut(bucket);
        *held += weight;
        let visible = *held >= EPSILON;
        self.total += weight;
        if visible {
            self.min = self.min.min(bucket);
            self.max = self.max.max(bucket);
        }
    }

    /// Subtracts weight of at least zero from a bucket. Results below [`EPSILON`] become zero.
    pub(crate) fn subtract(&mut self, bucket: u16, weight: f64) {
        self.total = subtract_down_to_zero(self.total, weight);
        let held = self.weight_mut(bucket);
        *held = subtract_down_to_zero(*held, weight);
        self.narrow();
    }

    /// Multiplies all visible weights, and the total, by a factor of at least zero.
    pub(crate) fn scale(&mut self, factor: f64) {
        if let Some((first, last)) = self.visible_window() {
            for weight in &mut self.weights[first..=last] {
                *weight *= factor;
            }
        }
        self.total *= factor;
        self.narrow();
    }

    /// Adds the visible weights of another histogram, multiplied by `factor`. The other one is not
    /// changed.
    #[expect(clippy::float_cmp, reason = "exactly one means unscaled")]
    pub(crate) fn merge(&mut self, other: &Self, factor: f64) {
        // Merging unscaled leaves the bounds unchanged.
        let (min, max) = if factor == 1.0 {
            (other.min, other.max)
        } else {
            other.narrowed(factor)
        };
        if min <= max {
            self.reserve(min, max);
            let from = usize::from(min - other.offset);
            let to = usize::from(min - self.offset);
            let count = usize::from(max - min) + 1;
            for (held, weight) in self.weights[to..to + count]
                .iter_mut()
                .zip(&other.weights[from..from + count])
            {
                *held += weight * factor;
            }
        }
        self.total += other.total * factor;
        self.min = self.min.min(min);
        self.max = self.max.max(max);
    }

    /// The visible weights relative to the largest one, which is 10000; buckets that round to zero
    /// are left out.
    pub(crate) fn save(&self) -> BTreeMap<i64, u32> {
        let heaviest = (self.min..=self.max)
            .map(|bucket| self.weight(bucket))
            .fold(0.0, f64::max);
        let ratio = SAVED_MAX / heaviest;
        (self.min..=self.max)
            .map(|bucket| {
                (
                    i64::from(bucket),
                    (self.weight(bucket) * ratio + 0.5).floor() as u32,
                )
            })
            .filter(|(_, weight)| *weight > 0)
            .collect()
    }

    /// Adds saved weights, scaled to the sum `total`. All buckets must exist.
    pub(crate) fn load(&mut self, saved: &BTreeMap<i64, u32>, total: f64) {
        let sum: i64 = saved.values().map(|weight| i64::from(*weight)).sum();
        if sum == 0 {
            return;
        }
        let ratio = total / sum as f64;
        for (bucket, weight) in saved {
            let bucket = *bucket as u16;
            self.min = self.min.min(bucket);
            self.max = self.max.max(bucket);
            *self.weight_mut(bucket) += f64::from(*weight) * ratio;
        }
        self.total += total;
        self.narrow();
    }

    /// Whether samples of at most the total weight `most` can lead to this histogram.
    pub(crate) fn is_valid(&self, most: f64) -> bool {
        let (offset, end) = (
            usize::from(self.offset),
            usize::from(self.offset) + self.weights.len(),
        );
        let (min, max) = (usize::from(self.min), usize::from(self.max));
        let is_visible = min <= max && min >= offset && max < end;
        let mut weights = self.weights.iter().chain([&self.total]);
        end <= Buckets::COUNT
            && (is_visible || (self.min == LAST && self.max == 0))
            && weights.all(|weight| (0.0..=most).contains(weight))
    }

    fn weight(&self, bucket: u16) -> f64 {
        // Below the offset the index wraps to a value beyond the end.
        self.weights
            .get(usize::from(bucket.wrapping_sub(self.offset)))
            .copied()
            .unwrap_or(0.0)
    }

    fn weight_mut(&mut self, bucket: u16) -> &mut f64 {
        self.reserve(bucket, bucket);
        &mut self.weights[usize::from(bucket - self.offset)]
    }

    fn reserve(&mut self, first: u16, last: u16) {
        if self.weights.is_empty() {
            self.offset = first;
        }
        if first < self.offset {
            let missing = usize::from(self.offset - first);
            self.weights.reserve_exact(missing);
            self.weights.splice(0..0, std::iter::repeat_n(0.0, missing));
            self.offset = first;
        }
        let length = usize::from(last - self.offset) + 1;
        if length > self.weights.len() {
            self.weights.reserve_exact(length - self.weights.len());
            self.weights.resize(length, 0.0);
        }
    }

    /// The visible buckets as indices of `weights`.
    fn visible_window(&self) -> Option<(usize, usize)> {
        let last = self.weights.len().checked_sub(1)?;
        let index = |bucket: u16| usize::from(bucket.saturating_sub(self.offset));
        let (first, last) = (index(self.min), index(self.max).min(last));
        (self.min <= self.max && first <= last).then_some((first, last))
    }

    /// Moves the bounds inwards over invisible buckets.
    fn narrow(&mut self) {
        (self.min, self.max) = self.narrowed(1.0);
    }

    /// The bounds without buckets that scaling by `factor` makes invisible.
    fn narrowed(&self, factor: f64) -> (u16, u16) {
        let (mut min, mut max) = (self.min, self.max);
        while min < LAST && self.weight(min) * factor < EPSILON {
            min += 1;
        }
        while max > 0 && self.weight(max) * factor < EPSILON {
            max -= 1;
        }
        (min, max)
    }
}

fn subtract_down_to_zero(value: f64, weight: f64) -> f64 {
    let rest = value - weight;
    if rest < EPSILON { 0.0 } else { rest }
}
