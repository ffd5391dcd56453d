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
    decay_usual: f64,
    decay_half_day: f64,
    decay_hour: f64,
    decay_day: f64,
    decay_visit: f64,
    usual: Ewma,
    half_day: Ewma,
    hour: Ewma,
    day: Ewma,
    times: Vec<(f32, f32)>,
}

impl ErrorSize {
    /// Heap memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.times)
    }

    /// For a forecast `ahead` slots ahead, evaluated every `every` slots.
    pub(crate) fn new(grid: &Grid, ahead: f64, every: f64, floor: f64) -> Self {
        Self {
            per_hour: grid.per_hour,
            floor,
            decay_usual: decay_factor(grid.days(14.0) / every),
            decay_half_day: decay_factor(grid.hours(6.0).max(2.0 * ahead) / every),
            decay_hour: decay_factor(grid.hours(1.0).max(ahead) / every),
            decay_day: decay_factor(grid.days(1.0) / every),
            decay_visit: decay_factor(VISITS),
            usual: Ewma::default(),
            half_day: Ewma::default(),
            hour: Ewma::default(),
            day: Ewma::default(),
            times: vec![(0.0, 0.0); grid.per_day],
        }
    }

    /// Records an error at a time of day.
    pub(crate) fn add(&mut self, time: usize, error: f64) {
        let error = error.abs();
        self.usual.add(self.decay_usual, error);
        self.half_day.add(self.decay_half_day, error);
        self.hour.add(self.decay_hour, error);
        self.day.add(self.decay_day, error);
        if let Some((sum, count)) = self.times.get_mut(time) {
            *sum = self.decay_visit as f32 * *sum + error as f32;
            *count = self.decay_visit as f32 * *count + 1.0;
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
        self.day.mean()
    }

    /// Expected error sizes at that time of day, or `None` before the first error.
    pub(crate) fn sizes(&self, time: usize) -> Option<[f64; SIZES]> {
        let usual = self.usual.mean()?;
        let little = FLOOR_SHARE * usual + self.floor;
        let around = self.around(time).unwrap_or(usual) + little;
        let hour = self.hour.mean()? + little;
        Some([
            usual + self.floor,
            self.half_day.mean()? + little,
            around,
            (hour * around).sqrt(),
        ])
    }
}
