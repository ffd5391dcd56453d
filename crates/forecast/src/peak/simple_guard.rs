//! Accuracy of peak forecasts over the last day, and their replacement by the best simple method
//! after a day in which that one was clearly better.
//!
//! The forecast returns after a day in which it was at least as good again.

use std::collections::VecDeque;

use crate::grid::Grid;

/// Error over a day from which a forecast is replaced, relative to that of the best simple method.
const CLEARLY: f64 = 1.1;
/// Difference of two errors that does not matter, as a share of the peaks. Twice as much is needed to
/// replace a forecast.
const NEGLIGIBLE: f64 = 0.005;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimpleMethod {
    Last,
    Yesterday,
    /// The same time last week.
    LastWeek,
    /// The mean of the last seven days at that time, times the level of the last hour.
    Level,
}

impl SimpleMethod {
    const ALL: [Self; 4] = [Self::Last, Self::Yesterday, Self::LastWeek, Self::Level];

    /// Noun phrase for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Last => "the last value",
            Self::Yesterday => "the value of yesterday",
            Self::LastWeek => "the value of last week",
            Self::Level => "the mean of seven days times the level of the last hour",
        }
    }
}

const METHODS: usize = SimpleMethod::ALL.len();

/// Forecasts of the simple methods, in their order; `None` if the history is too short.
pub(crate) type SimpleForecasts = [Option<f64>; METHODS];

/// Accuracy over the last day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakAccuracy {
    /// Sum of absolute errors over the sum of absolute values, of the forecast before any
    /// replacement.
    pub wape: f64,
    /// The same of the best simple method.
    pub simple_wape: f64,
    pub simple_method: SimpleMethod,
    /// Share of windows whose peak was at most the published value.
    pub coverage: f64,
    /// Replacement of the forecast; `None` while the forecast is used.
    pub set_aside: Option<SetAside>,
}

/// Replacement of a forecast, with the errors of the day that led to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetAside {
    pub wape: f64,
    pub simple_wape: f64,
    /// The best simple method of that day.
    pub simple_method: SimpleMethod,
}

/// Forecasts of one slot, until its peak is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Expected value of the ensemble, also while it is replaced.
    pub(super) expected: Option<f64>,
    pub(super) value: f64,
    pub(super) simple: SimpleForecasts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Errors {
    size: f32,
    forecast: f32,
    simple: [Option<f32>; METHODS],
    is_covered: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    size: f64,
    forecast: f64,
    simple: [(f64, usize); METHODS],
    covered: usize,
}

impl Sums {
    fn add(&mut self, errors: &Errors) {
        self.size += f64::from(errors.size);
        self.forecast += f64::from(errors.forecast);
        self.covered += usize::from(errors.is_covered);
        for ((sum, count), error) in self.simple.iter_mut().zip(errors.simple) {
            *sum += f64::from(error.unwrap_or_default());
            *count += usize::from(error.is_some());
        }
    }

    fn subtract(&mut self, errors: &Errors) {
        let less = |sum: &mut f64, value: f32| *sum = (*sum - f64::from(value)).max(0.0);
        less(&mut self.size, errors.size);
        less(&mut self.forecast, errors.forecast);
        self.covered -= usize::from(errors.is_covered);
        for ((sum, count), error) in self.simple.iter_mut().zip(errors.simple) {
            less(sum, error.unwrap_or_default());
            *count -= usize::from(error.is_some());
        }
    }
}

/// Errors of the forecast and of the simple methods over the last day, and the replacement.
#[derive(Clone, Debug)]
pub(super) struct SimpleGuard {
    horizon: usize,
    per_day: usize,
    /// Forecasts of the next slots, the oldest first.
    pending: VecDeque<Pending>,
    /// Errors of the last day of measured slots, the oldest first.
    day: VecDeque<Errors>,
    sums: Sums,
    set_aside: Option<SetAside>,
}

impl SimpleGuard {
    pub(super) fn new(grid: &Grid, horizon: usize) -> Self {
        Self {
            horizon,
            per_day: grid.per_day,
            pending: VecDeque::with_capacity(horizon),
            day: VecDeque::new(),
            sums: Sums::default(),
            set_aside: None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.pending.capacity() * size_of::<Pending>() + self.day.capacity() * size_of::<Errors>()
    }

    /// Evaluates the forecasts of a slot, and adds those made after it.
    pub(super) fn step(&mut self, peak: Option<f64>, pending: Pending) {
        let due = (self.pending.len() == self.horizon).then(|| self.pending.pop_front());
        self.pending.push_back(pending);
        let (Some(peak), Some(due)) = (peak, due.flatten()) else {
            return;
        };
        let Some(expected) = due.expected else { return };
        let error = |forecast: f64| (peak - forecast).abs() as f32;
        let errors = Errors {
            size: peak.abs() as f32,
            forecast: error(expected),
            simple: due.simple.map(|forecast| forecast.map(error)),
            is_covered: peak <= due.value,
        };
        if self.day.len() == self.per_day
            && let Some(oldest) = self.day.pop_front()
        {
            self.sums.subtract(&oldest);
        }
        self.sums.add(&errors);
        self.day.push_back(errors);
        self.decide();
    }

    /// Sets the forecast aside after a day in which it was clearly worse than the best simple
    /// method, and takes it back after a day in which it was not worse.
    fn decide(&mut self) {
        let Some((which, error)) = self.best() else {
            return;
        };
        let Sums { forecast, size, .. } = self.sums;
        if self.set_aside.is_some() {
            let is_worse = forecast > error + NEGLIGIBLE * size;
            self.set_aside = self.set_aside.filter(|_| is_worse);
        } else if forecast > CLEARLY * error + 2.0 * NEGLIGIBLE * size {
            self.set_aside = Some(SetAside {
                wape: forecast / size,
                simple_wape: error / size,
                simple_method: SimpleMethod::ALL[which],
            });
        }
    }

    /// Index and error over the last day of the best simple method, of those evaluated at each slot
    /// of it. `None` before a day of evaluations.
    fn best(&self) -> Option<(usize, f64)> {
        let simple = self.sums.simple.iter().enumerate();
        let evaluated = simple.filter(|(_, (_, count))| *count == self.per_day);
        let errors = evaluated.map(|(which, (sum, _))| (which, *sum));
        errors.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    pub(super) fn replacement(&self, simple: &SimpleForecasts) -> Option<(SimpleMethod, f64)> {
        self.set_aside?;
        let (which, _) = self.best()?;
        Some((SimpleMethod::ALL[which], simple[which]?))
    }

    pub(super) fn accuracy(&self) -> Option<PeakAccuracy> {
        let (which, error) = self.best()?;
        let Sums {
            size,
            forecast,
            covered,
            ..
        } = self.sums;
        (size > 0.0).then(|| PeakAccuracy {
            wape: forecast / size,
            simple_wape: error / size,
            simple_method: SimpleMethod::ALL[which],
            coverage: covered as f64 / self.per_day as f64,
            set_aside: self.set_aside,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HORIZON: usize = 2;
    const DAY: usize = 288;

    fn guard() -> SimpleGuard {
        SimpleGuard::new(&Grid::new(300).expect("five minutes fit a day"), HORIZON)
    }

    /// Peaks of 10, with these errors of the forecast, the last value and yesterday.
    fn step(guard: &mut SimpleGuard, slots: usize, forecast: f64, last: f64, yesterday: f64) {
        let pending = Pending {
            expected: Some(10.0 + forecast),
            value: 13.0,
            simple: [Some(10.0 + last), Some(10.0 - yesterday), None, None],
        };
        (0..slots).for_each(|_| guard.step(Some(10.0), pending));
    }

    fn replacement(guard: &SimpleGuard) -> Option<(SimpleMethod, f64)> {
        guard.replacement(&[Some(7.0), Some(8.0), Some(9.0), None])
    }

    #[test]
    fn only_a_clearly_better_simple_method_of_a_day_replaces_the_forecast() {
        let (last, yesterday) = ((SimpleMethod::Last, 7.0), (SimpleMethod::Yesterday, 8.0));
        for (slots, errors, expected) in [
            (DAY + HORIZON - 1, (1.0, 1.5), None),
            (DAY + HORIZON, (1.0, 1.5), Some(last)),
            (DAY + HORIZON, (1.5, 1.0), Some(yesterday)),
            (DAY + HORIZON, (1.7, 3.0), Some(last)),
            (DAY + HORIZON, (1.8, 3.0), None),
        ] {
            let mut guard = guard();
            step(&mut guard, slots, 2.0, errors.0, errors.1);
            assert_eq!(replacement(&guard), expected, "{slots} {errors:?}");
        }
    }

    #[test]
    fn a_negligible_difference_replaces_nothing() {
        for (error, is_replaced) in [(0.09, false), (0.11, true)] {
            let mut guard = guard();
            step(&mut guard, 2 * DAY, error, 0.0, 0.0);
            assert_eq!(replacement(&guard).is_some(), is_replaced, "{error}");
        }
    }

    #[test]
    fn a_replaced_forecast_returns_after_a_day_in_which_it_was_better() {
        let mut guard = guard();
        step(&mut guard, 2 * DAY, 2.0, 1.0, 3.0);
        let before = guard.accuracy().expect("two days").set_aside;
        assert_eq!(
            before.map(|set_aside| (set_aside.wape, set_aside.simple_wape)),
            Some((0.2, 0.1))
        );
        // The day's errors are equal but for the negligible once 183 slots have a quarter of them.
        for (slots, is_replaced) in [(DAY / 2, true), (40, true), (1, false), (DAY, false)] {
            step(&mut guard, slots, 0.5, 1.0, 3.0);
            assert_eq!(replacement(&guard).is_some(), is_replaced, "{slots}");
            let set_aside = guard.accuracy().expect("a day").set_aside;
            assert_eq!(set_aside, before.filter(|_| is_replaced), "{slots}");
        }
    }

    #[test]
    fn accuracy_is_that_of_the_last_day_relative_to_the_peaks() {
        let mut guard = guard();
        step(&mut guard, DAY + HORIZON - 1, 2.0, 1.0, 1.5);
        assert_eq!(guard.accuracy(), None);
        step(&mut guard, DAY, 2.0, 1.0, 1.5);
        let accuracy = guard.accuracy().expect("a day of errors");
        let PeakAccuracy {
            wape,
            simple_wape,
            coverage,
            ..
        } = accuracy;
        for (found, expected) in [(wape, 0.2), (simple_wape, 0.1), (coverage, 1.0)] {
            assert!((found - expected).abs() < 1e-9, "{accuracy:?}");
        }
        assert_eq!(accuracy.simple_method, SimpleMethod::Last);
    }
}
