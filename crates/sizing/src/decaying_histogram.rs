//! Histogram with exponential decay: a weight counts half as much as one added a half-life later.
//!
//! Old weights are not touched. New ones are multiplied by `2^((t - reference) / half-life)`
//! instead, and only when that factor exceeds 2^100 the reference moves and everything is scaled
//! once. Source: upstream `pkg/recommender/util/decaying_histogram.go`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{CheckpointError, HistogramCheckpoint};
use crate::float::{exp2, power_of_two};
use crate::instant::Instant;
use crate::{Buckets, Histogram};

/// Age of the reference in half-lives at which it moves.
const MAX_HALF_LIVES: i64 = 100;

/// Maximum weight of a sample; below it no sum can leave the range of doubles.
const MAX_WEIGHT: f64 = 1e30;

/// Maximum total weight in a checkpoint. More cannot come from samples and would outweigh every
/// later one.
const MAX_TOTAL: f64 = 1e60;

/// Half-life in nanoseconds, above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfLife(i64);

impl HalfLife {
    /// Creates a half-life; `None` unless above zero.
    pub const fn from_nanoseconds(nanoseconds: i64) -> Option<Self> {
        if nanoseconds > 0 {
            Some(Self(nanoseconds))
        } else {
            None
        }
    }

    pub fn nanoseconds(self) -> i64 {
        self.0
    }
}

/// Parameters shared by all histograms of one resource.
#[derive(Clone, Copy, Debug)]
pub struct HistogramConfig {
    pub buckets: &'static Buckets,
    pub half_life: HalfLife,
}

/// Histogram with weights that halve with every half-life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DecayingHistogram {
    histogram: Histogram,
    reference: Instant,
}

impl DecayingHistogram {
    /// Whether no bucket has a significant weight.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// Sum of all weights at the reference time.
    pub fn total(&self) -> f64 {
        self.histogram.total()
    }

    /// Time at which an added weight has a factor of one.
    pub fn reference(&self) -> Option<Timestamp> {
        self.reference.into()
    }

    /// The visible buckets and their weights at the reference time.
    pub fn weights(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.histogram.weights()
    }

    /// The end of the bucket in which the share `fraction` (0 to 1) of the total weight is reached;
    /// 0 if empty.
    pub fn percentile(&self, shape: &HistogramConfig, fraction: f64) -> f64 {
        self.histogram.percentile(shape.buckets, fraction)
    }

    /// Adds `weight` at `value` (cores or bytes) and a time. Values that are not finite and weights
    /// outside 0 to 1e30 are ignored.
    pub fn add(
        &mut self,
        shape: &HistogramConfig,
        value: f64,
        weight: f64,
        at: impl Into<Instant>,
    ) {
        if value.is_finite() {
            self.add_to_bucket(shape, shape.buckets.find(value) as u16, weight, at.into());
        }
    }

    pub(crate) fn add_to_bucket(
        &mut self,
        shape: &HistogramConfig,
        bucket: u16,
        weight: f64,
        at: Instant,
    ) {
        if is_usable(weight, at) {
            let weight = weight * self.factor(shape.half_life, at);
            self.histogram
                .add(bucket.min(Buckets::COUNT as u16 - 1), weight);
        }
    }

    /// Reverts [`DecayingHistogram::add`] with the same arguments.
    pub fn subtract(
        &mut self,
        shape: &HistogramConfig,
        value: f64,
        weight: f64,
        at: impl Into<Instant>,
    ) {
        let at = at.into();
        if value.is_finite() && is_usable(weight, at) {
            let weight = weight * self.factor(shape.half_life, at);
            self.histogram
                .subtract(shape.buckets.find(value) as u16, weight);
        }
    }

    /// Adds all of `other`, with both moved to the younger of their references.
    pub fn merge(&mut self, shape: &HistogramConfig, other: &Self) {
        let mut factor = 1.0;
        if self.reference < other.reference {
            self.shift_reference(shape.half_life, other.reference);
        } else if other.reference < self.reference {
            factor = other.shift(shape.half_life, self.reference).1;
        }
        self.histogram.merge(&other.histogram, factor);
    }

    /// Moves the reference to the multiple of the half-life nearest to a time, preserving the
    /// meaning of all weights.
    pub fn shift_reference(&mut self, half_life: HalfLife, to: impl Into<Instant>) {
        let (reference, factor) = self.shift(half_life, to.into());
        self.histogram.scale(factor);
        self.reference = reference;
    }

    /// Ages all weights by a duration rounded to half-lives.
    pub(crate) fn move_back(&mut self, half_life: HalfLife, nanoseconds: i64) {
        let half_lives = nanoseconds.saturating_add(half_life.0 / 2) / half_life.0;
        self.reference = self
            .reference
            .plus(half_lives.saturating_mul(half_life.0).saturating_neg());
    }

    /// Whether samples until `last` can lead to this histogram.
    pub(crate) fn is_valid(&self, half_life: HalfLife, last: Instant) -> bool {
        self.histogram.is_valid(MAX_TOTAL) && self.reference <= last.plus(half_life.0)
    }

    pub fn save(&self) -> HistogramCheckpoint {
        HistogramCheckpoint {
            reference_timestamp: self.reference(),
            bucket_weights: self.histogram.save(),
            total_weight: self.histogram.total(),
        }
    }

    /// Adds a checkpoint and adopts its reference. Nothing changes on an error.
    pub fn load(&mut self, stored: &HistogramCheckpoint) -> Result<(), CheckpointError> {
        let total = stored.total_weight;
        if !(0.0..=MAX_TOTAL).contains(&total) {
            return Err(CheckpointError::TotalWeight(total));
        }
        let known = 0..Buckets::COUNT as i64;
        if let Some(bucket) = stored
            .bucket_weights
            .keys()
            .find(|bucket| !known.contains(*bucket))
        {
            return Err(CheckpointError::Bucket(*bucket));
        }
        self.histogram.load(&stored.bucket_weights, total);
        self.reference = stored.reference_timestamp.into();
        Ok(())
    }

    /// Factor of a weight added at a time, relative to the reference. Moves the reference if it is
    /// too old.
    fn factor(&mut self, half_life: HalfLife, at: Instant) -> f64 {
        let reach = half_life.0.saturating_mul(MAX_HALF_LIVES);
        if self.reference.is_never() || at > self.reference.plus(reach) {
            self.shift_reference(half_life, at);
        }
        exp2(at.since(self.reference) as f64 / half_life.0 as f64)
    }

    /// The reference nearest to a time, and the factor that converts weights to it.
    fn shift(&self, half_life: HalfLife, to: Instant) -> (Instant, f64) {
        let reference = to.round(half_life.0);
        let half_lives = self.reference.since(reference) as f64 / half_life.0 as f64;
        (reference, power_of_two((half_lives + 0.5).floor() as i64))
    }
}

fn is_usable(weight: f64, at: Instant) -> bool {
    (0.0..=MAX_WEIGHT).contains(&weight) && !at.is_never()
}
