//! Weights over exponential buckets, in a window of 64 buckets that moves up.
//!
//! Bucket b > 0 covers amounts above `first * 1.08^(b-1)` up to its bound `first * 1.08^b`; bucket 0
//! covers all up to `first`. The window spans a factor of 127. An amount above the window moves it
//! up; weight that falls out below is added to the lowest bucket of the window.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// Number of buckets of a window.
const WINDOW: usize = 64;
/// Number of buckets overall: up to 8 million times the first bound.
pub(super) const BUCKETS: usize = 208;
/// Factor between the bounds of neighbouring buckets.
pub(super) const GROWTH: f64 = 1.08;
/// Weights below this are dropped.
const NEGLIGIBLE: f32 = 1e-7;

static POWERS: LazyLock<[f64; BUCKETS]> = LazyLock::new(|| {
    let mut power = 1.0;
    std::array::from_fn(|_| {
        let this = power;
        power *= GROWTH;
        this
    })
});

pub(super) fn bucket(first: f64, amount: f64) -> usize {
    POWERS
        .partition_point(|power| first * power < amount)
        .min(BUCKETS - 1)
}

pub(super) fn bound(first: f64, bucket: usize) -> f64 {
    first * POWERS[bucket.min(BUCKETS - 1)]
}

/// Weights of the buckets from `base`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Histogram {
    base: u8,
    weights: Vec<f32>,
}

impl Histogram {
    pub(super) fn add(&mut self, bucket: usize, weight: f32) {
        let at = self.make_room(bucket);
        self.weights[at] += weight;
    }

    /// Adds all weights of another histogram, multiplied.
    pub(super) fn add_all(&mut self, other: &Self, factor: f32) {
        // The highest first, so that the window moves once.
        for (bucket, weight) in other.iter().rev() {
            self.add(bucket, weight * factor);
        }
    }

    pub(super) fn scale(&mut self, factor: f32) {
        for weight in &mut self.weights {
            *weight *= factor;
            if *weight < NEGLIGIBLE {
                *weight = 0.0;
            }
        }
    }

    /// Weights by bucket, in rising order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, f32)> + '_ {
        let base = usize::from(self.base);
        self.weights
            .iter()
            .enumerate()
            .map(move |(index, weight)| (base + index, *weight))
    }

    pub(super) fn add_to(&self, sums: &mut [f64; BUCKETS]) {
        let sums = sums.iter_mut().skip(usize::from(self.base));
        for (sum, weight) in sums.zip(&self.weights) {
            *sum += f64::from(*weight);
        }
    }

    pub(super) fn total(&self) -> f64 {
        self.iter().map(|(_, weight)| f64::from(weight)).sum()
    }

    /// The lowest bucket with at least this share of the weight in it and below. `None` without
    /// weight.
    pub(super) fn percentile(&self, share: f64) -> Option<usize> {
        let enough = share * self.total();
        let mut below = 0.0;
        let mut used = self.iter().filter(|(_, weight)| *weight > 0.0);
        let found = used.find(|(_, weight)| {
            below += f64::from(*weight);
            below >= enough
        });
        found.map(|(bucket, _)| bucket)
    }

    /// The highest bucket with at least this weight in it and above.
    pub(super) fn highest_with(&self, least: f32) -> Option<usize> {
        let mut above = 0.0;
        let found = self.iter().rev().find(|(_, weight)| {
            above += weight;
            above >= least
        });
        found.map(|(bucket, _)| bucket)
    }

    /// The weighted mean of the bounds; not a number without weight.
    pub(super) fn mean(&self, first: f64) -> f64 {
        let sums = self
            .iter()
            .map(|(bucket, weight)| f64::from(weight) * bound(first, bucket));
        sums.sum::<f64>() / self.total()
    }

    /// Whether a stored histogram keeps to the buckets and has weights from 0 up.
    pub(super) fn is_valid(&self) -> bool {
        self.weights.len() <= WINDOW
            && usize::from(self.base) + self.weights.len() <= BUCKETS
            && self
                .weights
                .iter()
                .all(|weight| weight.is_finite() && *weight >= 0.0)
    }

    /// The index of a bucket in the window, which is extended or moved up for it.
    fn make_room(&mut self, bucket: usize) -> usize {
        let base = usize::from(self.base);
        if self.weights.is_empty() {
            self.base = bucket as u8;
            self.weights.push(0.0);
            return 0;
        }
        if bucket < base {
            let missing = (base - bucket).min(WINDOW - self.weights.len());
            self.weights.splice(0..0, std::iter::repeat_n(0.0, missing));
            self.base -= missing as u8;
            return bucket.saturating_sub(base - missing);
        }
        let index = bucket - base;
        if index < WINDOW {
            let length = self.weights.len().max(index + 1);
            self.weights.resize(length, 0.0);
            return index;
        }
        let new_base = bucket + 1 - WINDOW;
        let below = (new_base - base).min(self.weights.len());
        let folded: f32 = self.weights.drain(..below).sum();
        self.base = new_base as u8;
        self.weights.resize(WINDOW, 0.0);
        self.weights[0] += folded;
        WINDOW - 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bucket_ends_at_its_bound() {
        for (amount, expected) in [
            (0.0, 0),
            (10.0, 0),
            (10.1, 1),
            (10.8, 1),
            (1e9, BUCKETS - 1),
        ] {
            assert_eq!(bucket(10.0, amount), expected, "{amount}");
        }
        for index in 1..BUCKETS {
            assert_eq!(bucket(10.0, bound(10.0, index)), index);
        }
    }

    proptest! {
        #[test]
        fn the_window_keeps_all_weight_and_the_highest_bucket(
            added in prop::collection::vec((0..BUCKETS, 0.01_f32..10.0), 1..60),
        ) {
            let mut histogram = Histogram::default();
            for (bucket, weight) in &added {
                histogram.add(*bucket, *weight);
            }
            let sum: f64 = added.iter().map(|(_, weight)| f64::from(*weight)).sum();
            let highest = added.iter().map(|(bucket, _)| *bucket).max();
            prop_assert!((histogram.total() - sum).abs() < 1e-3 * sum);
            prop_assert_eq!(histogram.iter().filter(|(_, weight)| *weight > 0.0).map(|(bucket, _)| bucket).max(), highest);
            prop_assert!(histogram.is_valid());
            let lowest = added.iter().map(|(bucket, _)| *bucket).min().zip(highest);
            if lowest.is_some_and(|(lowest, highest)| highest - lowest < WINDOW) {
                let exact = |bucket: usize| added.iter().filter(|(other, _)| *other == bucket).map(|(_, weight)| *weight).sum::<f32>();
                for (bucket, weight) in histogram.iter() {
                    prop_assert!((weight - exact(bucket)).abs() < 1e-3);
                }
            }
        }
    }
}
