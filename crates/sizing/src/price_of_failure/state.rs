//! The state of a container: the rank of its recent peak, and the rank of the peaks of the coming
//! hours on the last seven days.

use serde::{Deserialize, Serialize};

use super::histogram::{Histogram, bucket};
use super::settings::Settings;

pub(super) const STATES: usize = 9;

/// Ranks below these are in classes 0 and 1.
const CLASSES: [f64; 2] = [0.5, 0.9];

/// Past values of the two peaks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ranks {
    pub(super) recent: Histogram,
    pub(super) seasonal: Histogram,
}

impl Ranks {
    pub(super) fn scale(&mut self, factor: f32) {
        self.recent.scale(factor);
        self.seasonal.scale(factor);
    }

    /// Adds the peaks of a block and returns its state.
    pub(super) fn add(&mut self, recent: f64, seasonal: Option<f64>) -> u8 {
        let class = |histogram: &mut Histogram, peak: f64| {
            let bucket = bucket(Settings::FIRST_BOUND, peak);
            histogram.add(bucket, 1.0);
            class(rank(histogram, bucket))
        };
        let recent = class(&mut self.recent, recent);
        let seasonal = seasonal.map_or(0, |seasonal| class(&mut self.seasonal, seasonal));
        3 * recent + seasonal
    }
}

/// The share of weight below a bucket, and half of that in it.
fn rank(histogram: &Histogram, bucket: usize) -> f64 {
    let below: f64 = histogram
        .iter()
        .map(|(other, weight)| match other.cmp(&bucket) {
            std::cmp::Ordering::Less => f64::from(weight),
            std::cmp::Ordering::Equal => 0.5 * f64::from(weight),
            std::cmp::Ordering::Greater => 0.0,
        })
        .sum();
    below / histogram.total()
}

fn class(rank: f64) -> u8 {
    CLASSES.iter().map(|end| u8::from(rank >= *end)).sum()
}
