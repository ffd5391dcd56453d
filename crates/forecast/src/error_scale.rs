//! Expected size of an error: in general, recently, and at that time of day, in four combinations.

use crate::ewma::{Ewma, decay_factor};
use crate::grid::Grid;

pub(crate) const SIZES: usize = 4;
/// Half-life of the errors at one time of day, in days.
const VISITS: f64 = 5.0;
/// Share of the usual error that is added while few errors are known.
const FLOOR_SHARE: f64 = 0.05;

/// Absolute errors of one horizon, averaged in several ways.
#[derive(Clone, Debug)]
pub(crate) struct ErrorSize {
    per_hour: usize,
    floor: f64,
    /// Decay and mean: usual, of half a day, of an hour, and of a day.
    means: [(f64, Ewma); 4],
    decay_visit: f32,
    times: Vec<(f32, f32)>,
}

impl ErrorSize {
    /// Heap memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.times)
    }

    /// For a forecast `ahead` slots ahead, evaluated every `every` slots.
    pub(crate) fn new(grid: &Grid, ahead: f64, every: f64, floor: f64) -> Self {
        let half_lives = [
            grid.days(14.0),
            grid.hours(6.0).max(2.0 * ahead),
            grid.hours(1.0).max(ahead),
            grid.days(1.0),
        ];
        Self {
            per_hour: grid.per_hour,
            floor,
            means: half_lives.map(|slots| (decay_factor(slots / every), Ewma::default())),
            decay_visit: decay_factor(VISITS) as f32,
            times: vec![(0.0, 0.0); grid.per_day],
        }
    }

    pub(crate) fn add(&mut self, time: usize, error: f64) {
        let error = error.abs();
        for (decay, mean) in &mut self.means {
            mean.add(*decay, error);
        }
        if let Some((sum, count)) = self.times.get_mut(time) {
            *sum = self.decay_visit * *sum + error as f32;
            *count = self.decay_visit * *count + 1.0;
        }
    }

    /// The mean error within an hour of that time of day.
    fn around(&self, time: usize) -> Option<f64> {
        let times = self.times.len();
        let reach = self.per_hour.min(times / 2);
        let first = time.checked_sub(reach).unwrap_or(time + times - reach);
        let (mut sum, mut count) = (0.0, 0.0);
        let until_end = (2 * reach + 1).min(times - first);
        let weights = [
            &self.times[first..first + until_end],
            &self.times[..2 * reach + 1 - until_end],
        ];
        for (error, weight) in weights.into_iter().flatten() {
            sum += error;
            count += weight;
        }
        (count > 0.0).then(|| f64::from(sum / count))
    }

    /// The mean error of the last day, or `None` before the first error.
    pub(crate) fn day(&self) -> Option<f64> {
        self.means[3].1.mean()
    }

    /// Expected error sizes at that time of day, or `None` before the first error.
    pub(crate) fn sizes(&self, time: usize) -> Option<[f64; SIZES]> {
        let [usual, half_day, hour, _] = self.means.map(|(_, mean)| mean.mean());
        let usual = usual?;
        let little = FLOOR_SHARE * usual + self.floor;
        let around = self.around(time).unwrap_or(usual) + little;
        let hour = hour? + little;
        Some([
            usual + self.floor,
            half_day? + little,
            around,
            (hour * around).sqrt(),
        ])
    }
}
