//! Accuracy of peak forecasts over the last day, and their replacement by the best simple method
//! while that one was clearly better.

use std::collections::VecDeque;

use crate::ewma::{Ewma, decay_factor};
use crate::grid::Grid;
const HALF_LIFE_HOURS: f64 = 12.0;
/// Error from which a forecast is replaced, relative to that of the best simple method.
const CLEARLY: f64 = 1.1;

/// A simple method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimpleMethod {
    /// The last value.
    Last,
    /// The same time yesterday.
    Yesterday,
    /// The same time last week.
    LastWeek,
    /// The mean of the last seven days at that time, times the level of the last hour.
    Level,
}

impl SimpleMethod {
    const ALL: [Self; 4] = [Self::Last, Self::Yesterday, Self::LastWeek, Self::Level];
}

/// Forecasts of the simple methods, in their order; `None` if the history is too short.
pub(crate) type SimpleForecasts = [Option<f64>; SimpleMethod::ALL.len()];

/// Accuracy over about a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakAccuracy {
    /// Sum of absolute errors over the sum of absolute values.
    pub wape: f64,
    /// The same of the best simple method.
    pub simple_wape: f64,
    /// Share of windows whose peak was at most the published value.
    pub coverage: f64,
}

/// Forecasts of one slot, until its peak is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Expected value of the ensemble, also while it is replaced.
    pub(super) expected: Option<f64>,
    /// Published value.
    pub(super) value: f64,
    pub(super) simple: SimpleForecasts,
}

/// Errors of the forecast and of the simple methods.
#[derive(Clone, Debug)]
pub(super) struct SimpleGuard {
    decay: f64,
    horizon: usize,
    per_day: usize,
    /// Evaluations of each simple method.
    evaluated: [usize; SimpleMethod::ALL.len()],
    /// Forecasts of the next slots, the oldest first.
    pending: VecDeque<Pending>,
    error: Ewma,
    simple_errors: [Ewma; SimpleMethod::ALL.len()],
    size: Ewma,
    covered: Ewma,
}

impl SimpleGuard {
    /// For a horizon in slots.
    pub(super) fn new(grid: &Grid, horizon: usize) -> Self {
        Self {
            decay: decay_factor(grid.hours(HALF_LIFE_HOURS)),
            horizon,
            per_day: grid.per_day,
            evaluated: [0; SimpleMethod::ALL.len()],
            pending: VecDeque::with_capacity(horizon),
            error: Ewma::default(),
            simple_errors: Default::default(),
            size: Ewma::default(),
            covered: Ewma::default(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.pending.capacity() * size_of::<Pending>()
    }

    /// Evaluates the forecasts of a slot, and adds those made after it.
    pub(super) fn step(&mut self, peak: Option<f64>, pending: Pending) {
        let due = (self.pending.len() == self.horizon).then(|| self.pending.pop_front());
        self.pending.push_back(pending);
        let (Some(peak), Some(due)) = (peak, due.flatten()) else {
            return;
        };
        let Some(expected) = due.expected else { return };
        for (which, forecast) in due.simple.into_iter().enumerate() {
            if let Some(forecast) = forecast {
                self.evaluated[which] = self.evaluated[which].saturating_add(1);
                self.simple_errors[which].add(self.decay, (peak - forecast).abs());
            }
        }
        self.error.add(self.decay, (peak - expected).abs());
        self.size.add(self.decay, peak.abs());
        let is_covered = f64::from(u8::from(peak <= due.value));
        self.covered.add(self.decay, is_covered);
    }

    /// Index and mean error of the best simple method, of those evaluated for a day.
    fn best(&self) -> Option<(usize, f64)> {
        let evaluated =
            (0..self.evaluated.len()).filter(|which| self.evaluated[*which] >= self.per_day);
        let errors = evaluated.filter_map(|which| Some((which, self.simple_errors[which].mean()?)));
        errors.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// The simple method that replaces the forecast, with its value.
    pub(super) fn replacement(&self, simple: &SimpleForecasts) -> Option<(SimpleMethod, f64)> {
        let (index, error) = self.best()?;
        let is_better = self.error.mean()? > CLEARLY * error;
        Some((SimpleMethod::ALL[index], simple[index]?)).filter(|_| is_better)
    }

    pub(super) fn accuracy(&self) -> Option<PeakAccuracy> {
        let (_, best) = self.best()?;
        let size = self.size.mean().filter(|size| *size > 0.0)?;
        Some(PeakAccuracy {
            wape: self.error.mean()? / size,
            simple_wape: best / size,
            coverage: self.covered.mean()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Peaks of 10, forecast with an error of 2, and by the last value and yesterday with these
    /// errors.
    fn guard(slots: usize, last: f64, yesterday: f64) -> SimpleGuard {
        let grid = Grid::new(300).expect("five minutes fit a day");
        let mut guard = SimpleGuard::new(&grid, 2);
        let pending = Pending {
            expected: Some(12.0),
            value: 13.0,
            simple: [Some(10.0 + last), Some(10.0 - yesterday), None, None],
        };
        (0..slots).for_each(|_| guard.step(Some(10.0), pending));
        guard
    }

    #[test]
    fn only_a_clearly_better_simple_method_of_a_day_replaces_the_forecast() {
        let (last, yesterday) = ((SimpleMethod::Last, 7.0), (SimpleMethod::Yesterday, 8.0));
        for (slots, errors, expected) in [
            (289, (1.0, 1.5), None),
            (290, (1.0, 1.5), Some(last)),
            (290, (1.5, 1.0), Some(yesterday)),
            (290, (1.8, 3.0), Some(last)),
            (290, (1.9, 3.0), None),
        ] {
            let guard = guard(slots, errors.0, errors.1);
            let now = [Some(7.0), Some(8.0), Some(9.0), None];
            assert_eq!(guard.replacement(&now), expected, "{slots} {errors:?}");
        }
    }

    #[test]
    fn accuracy_is_relative_to_the_peaks() {
        assert_eq!(guard(289, 1.0, 1.5).accuracy(), None);
        let accuracy = guard(600, 1.0, 1.5).accuracy().expect("two days of errors");
        let PeakAccuracy {
            wape,
            simple_wape,
            coverage,
        } = accuracy;
        for (found, expected) in [(wape, 0.2), (simple_wape, 0.1), (coverage, 1.0)] {
            assert!((found - expected).abs() < 1e-9, "{accuracy:?}");
        }
    }
}
