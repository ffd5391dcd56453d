//! How large an error is to be expected: usual, lately, and at that time of day, in four mixtures.

use crate::discounted::{Discounted, keep};
use crate::grid::Grid;

/// How many sizes there are.
pub(crate) const SIZES: usize = 4;
/// What a visit of a time of day counts after five more visits: half.
const VISITS: f64 = 5.0;
/// Share of the usual error that is added where few errors were seen.
const FLOOR_SHARE: f64 = 0.05;

/// Absolute errors of one horizon, averaged in several ways.
#[derive(Clone, Debug)]
pub(crate) struct ErrorSize {
    per_hour: usize,
    floor: f64,
    keep_usual: f64,
    keep_half_day: f64,
    keep_hour: f64,
    keep_day: f64,
    keep_visit: f64,
    usual: Discounted,
    half_day: Discounted,
    hour: Discounted,
    day: Discounted,
    times: Vec<(f32, f32)>,
}

impl ErrorSize {
    /// Memory behind it.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.times)
    }

    /// For a forecast so many slots ahead, judged every so many slots.
    pub(crate) fn new(grid: &Grid, ahead: f64, every: f64, floor: f64) -> Self {
        Self {
            per_hour: grid.per_hour,
            floor,
            keep_usual: keep(grid.days(14.0) / every),
            keep_half_day: keep(grid.hours(6.0).max(2.0 * ahead) / every),
            keep_hour: keep(grid.hours(1.0).max(ahead) / every),
            keep_day: keep(grid.days(1.0) / every),
            keep_visit: keep(VISITS),
            usual: Discounted::default(),
            half_day: Discounted::default(),
            hour: Discounted::default(),
            day: Discounted::default(),
            times: vec![(0.0, 0.0); grid.per_day],
        }
    }

    /// Takes in an error at a time of day.
    pub(crate) fn add(&mut self, time: usize, error: f64) {
        let error = error.abs();
        self.usual.add(self.keep_usual, error);
        self.half_day.add(self.keep_half_day, error);
        self.hour.add(self.keep_hour, error);
        self.day.add(self.keep_day, error);
        if let Some((sum, count)) = self.times.get_mut(time) {
            *sum = self.keep_visit as f32 * *sum + error as f32;
            *count = self.keep_visit as f32 * *count + 1.0;
        }
    }

    /// The mean error within an hour of that time of day.
    fn around(&self, time: usize) -> Option<f64> {
        let times = self.times.len();
        let reach = self.per_hour.min(times / 2);
        let first = if time < reach {
            time + times - reach
        } else {
            time - reach
        };
        let (mut sum, mut count) = (0.0, 0.0);
        let until_end = (2 * reach + 1).min(times - first);
        let parts = [
            &self.times[first..first + until_end],
            &self.times[..2 * reach + 1 - until_end],
        ];
        for (error, weight) in parts.into_iter().flatten() {
            sum += error;
            count += weight;
        }
        (count > 0.0).then(|| f64::from(sum / count))
    }

    /// The mean error of the last day; none before the first error.
    pub(crate) fn day(&self) -> Option<f64> {
        self.day.mean()
    }

    /// What an error at that time of day may be measured against; none before the first error.
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
