//! Crane's DSP predictor: finds the period, tries each estimator on the last period, and forecasts
//! with the best.
//!
//! Only periods of exactly a day or a week are accepted, after at least two of them. A weekly
//! period is tested if there are two weeks. Source: gocrane/crane
//! `pkg/prediction/dsp/prediction.go` (`updateAggregateSignals`, `findPeriod`, `bestEstimator`).

use thiserror::Error;

use super::estimator::{Estimator, Periods};
use super::period::find_period;

const DAY_SECONDS: u64 = 86_400;
const WEEK_SECONDS: u64 = 7 * DAY_SECONDS;
/// Actual value below which errors are not relative.
const SMALL: f64 = 1e-3;

/// Reasons for a missing forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DspError {
    #[error("there are no samples, or their step is not between a second and an hour")]
    NoSamples,
    #[error("the sample at {at_second} is not a whole number of steps after the one before")]
    Irregular {
        /// Time of the sample, in seconds since 1970.
        at_second: i64,
    },
    #[error("there is neither a daily nor a weekly period")]
    NotPeriodic { found_seconds: Option<u64> },
    #[error("there are fewer than two periods of {period_seconds} s")]
    TooShort { period_seconds: u64 },
    #[error("no estimator can be evaluated by the last period")]
    NoEstimate,
    #[error("the forecast was cancelled")]
    Cancelled,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Dsp {
    /// Distance between samples (`sampleInterval`).
    pub step_seconds: u32,
    pub estimators: Vec<Estimator>,
}

impl Default for Dsp {
    fn default() -> Self {
        Self {
            step_seconds: 60,
            estimators: Estimator::defaults(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct DspForecast {
    /// Time of the first forecast value, in seconds since 1970.
    pub first_second: i64,
    /// One period of values. The forecast repeats it `periods` times.
    pub period: Vec<f64>,
    pub periods: usize,
    /// Error of each estimator on the last period.
    pub errors: Vec<f64>,
    /// Index of the estimator with the smallest error.
    pub best: usize,
}

impl DspForecast {
    /// All forecast values, one per step.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        let count = self.period.len() * self.periods;
        self.period.iter().copied().cycle().take(count)
    }
}

impl Dsp {
    /// Forecasts the values after these samples: (second since 1970, value), oldest first. Stops
    /// before the next estimator once `is_wanted` returns false.
    pub fn forecast_while(
        &self,
        samples: &[(i64, f64)],
        is_wanted: impl Fn() -> bool,
    ) -> Result<DspForecast, DspError> {
        let regular = preprocess(samples, self.step_seconds)?;
        let first_second = regular.first_second.ok_or(DspError::NoSamples)?;
        let found_seconds = self.period(&regular.values);
        let accepted = found_seconds.filter(|found| [DAY_SECONDS, WEEK_SECONDS].contains(found));
        let period_seconds = accepted.ok_or(DspError::NotPeriodic { found_seconds })?;
        let per_period = (period_seconds / u64::from(self.step_seconds)) as usize;
        let values = whole(&regular.values, per_period);
        let periods = values.len() / per_period;
        if periods < 2 {
            return Err(DspError::TooShort { period_seconds });
        }
        let (history, last) = values.split_at(values.len() - per_period);
        let earlier = Periods::new(history, per_period, self.step_seconds);
        let evaluate = |estimator: &Estimator| {
            let error = is_wanted().then(|| prediction_error(last, &earlier.next(estimator)));
            error.ok_or(DspError::Cancelled)
        };
        let errors = self.estimators.iter().map(evaluate);
        let errors = errors.collect::<Result<Vec<f64>, _>>()?;
        let (best, estimator) = self.best(&errors).ok_or(DspError::NoEstimate)?;
        Ok(DspForecast {
            first_second: first_second + regular.values.len() as i64 * i64::from(self.step_seconds),
            period: Periods::new(values, per_period, self.step_seconds).next(estimator),
            periods,
            errors,
            best,
        })
    }

    /// The period in seconds. Tests whole weeks if there are two, else whole days.
    pub fn period(&self, values: &[f64]) -> Option<u64> {
        let per = |seconds: u64| (seconds / u64::from(self.step_seconds.max(1))) as usize;
        let units = [per(WEEK_SECONDS), per(DAY_SECONDS)].into_iter();
        let mut tested = units.map(|unit| (unit, whole(values, unit)));
        let (_, values) = tested.find(|(unit, values)| values.len() >= 2 * unit)?;
        find_period(values, self.step_seconds)
    }

    fn best(&self, errors: &[f64]) -> Option<(usize, &Estimator)> {
        let errors = self.estimators.iter().zip(errors).enumerate();
        let finite = errors.filter(|(_, (_, error))| **error < f64::MAX);
        let best = finite.min_by(|(_, (_, one)), (_, (_, other))| one.total_cmp(other));
        best.map(|(index, (estimator, _))| (index, estimator))
    }
}

/// The newest values that form a whole number of units.
fn whole(values: &[f64], unit: usize) -> &[f64] {
    let surplus = values.len().checked_rem(unit).unwrap_or_default();
    values.get(surplus..).unwrap_or_default()
}

/// Prediction error in which underestimates count more than overestimates; NaN if the lists differ in
/// length or are empty.
///
/// The mean over all points of `(predicted - actual) / actual` for overestimates, and of
/// `-ln(1 - x) / ln(1.25)` with `x = (actual - predicted) / actual` for underestimates. If any
/// actual value is below 0.001: the mean of the plain differences. Source: gocrane/crane
/// `pkg/prediction/accuracy/prediction_error.go`.
pub fn prediction_error(actual: &[f64], predicted: &[f64]) -> f64 {
    if actual.len() != predicted.len() {
        return f64::NAN;
    }
    let is_small = actual.iter().any(|value| *value < SMALL);
    let error = if is_small { difference } else { share };
    let pairs = actual.iter().zip(predicted);
    let errors = pairs.map(|(actual, predicted)| error(*actual, *predicted));
    errors.sum::<f64>() / actual.len() as f64
}

fn difference(actual: f64, predicted: f64) -> f64 {
    (actual - predicted).abs()
}

fn share(actual: f64, predicted: f64) -> f64 {
    if predicted >= actual {
        return (predicted - actual) / actual;
    }
    -(1.0 - (actual - predicted) / actual).ln() / 1.25_f64.ln()
}

const HOUR_SECONDS: i64 = 3600;
const OUTLIERS: [f64; 2] = [0.1, 99.9];

/// Equidistant values without gaps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegularSeries {
    /// Time of the first value, in seconds since 1970; `None` without values.
    pub first_second: Option<i64>,
    /// The values, oldest first.
    pub values: Vec<f64>,
}

/// Fills gaps, cuts to whole hours and removes outliers. Samples are (second since 1970, value),
/// oldest first.
///
/// Only samples after the last gap of more than an hour are kept; shorter gaps are interpolated
/// linearly. The oldest samples are cut until a whole number of hours is left. Values above the
/// 99.9th or below the 0.1th percentile are replaced by the value before them. Source:
/// `preProcessTimeSeries`, and `signal.go`.
pub fn preprocess(samples: &[(i64, f64)], step_seconds: u32) -> Result<RegularSeries, DspError> {
    let step = i64::from(step_seconds);
    if samples.is_empty() || step == 0 || step > HOUR_SECONDS {
        return Err(DspError::NoSamples);
    }
    let mut start = 0;
    for (index, pair) in samples.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        let distance = after.0.saturating_sub(before.0);
        if distance > HOUR_SECONDS {
            start = index + 1;
        } else if distance <= 0 || distance % step != 0 {
            return Err(DspError::Irregular { at_second: after.0 });
        }
    }
    let kept = samples.get(start..).unwrap_or_default();
    let mut values = fill(kept, step);
    let per_hour = (HOUR_SECONDS / step) as usize;
    let surplus = values.len() % per_hour;
    values.drain(..surplus);
    replace_outliers(&mut values);
    let first = kept.first();
    let first = first.map(|(second, _)| second + surplus as i64 * step);
    Ok(RegularSeries {
        first_second: first.filter(|_| !values.is_empty()),
        values,
    })
}

fn fill(samples: &[(i64, f64)], step: i64) -> Vec<f64> {
    let first = samples.iter().take(1);
    let mut values: Vec<f64> = first.map(|(_, value)| *value).collect();
    for pair in samples.windows(2) {
        let [(before_second, before), (second, value)] = pair else {
            continue;
        };
        let steps = (second - before_second) / step;
        let rise = (value - before) / steps as f64;
        values.extend((1..steps).map(|number| before + rise * number as f64));
        values.push(*value);
    }
    values
}

fn replace_outliers(values: &mut [f64]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [Some(low), Some(high)] = OUTLIERS.map(|percent| percentile(&sorted, percent)) else {
        return;
    };
    let mut before = None;
    for value in values {
        if let Some(before) = before
            && (*value > high || *value < low)
        {
            *value = before;
        }
        before = Some(*value);
    }
}

/// The value at rank `percent` of a sorted list, or the mean of its two neighbours; `None` if the
/// rank lies before the first value.
fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    if let [only] = sorted {
        return Some(*only);
    }
    let rank = percent / 100.0 * sorted.len() as f64;
    let below = (rank as usize).checked_sub(1)?;
    let (value, next) = (sorted.get(below)?, sorted.get(below + 1));
    let next = next.filter(|_| rank.fract() != 0.0);
    Some(next.map_or(*value, |next| f64::midpoint(*value, *next)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::f64::consts::TAU;

    use super::*;

    #[test]
    fn a_forecast_that_is_not_wanted_any_more_ends_before_the_next_estimator() {
        let load = |number: i64| 10.0 + 5.0 * (TAU * number as f64 / 24.0).sin();
        let samples: Vec<_> = (0..72)
            .map(|number| (number * 3600, load(number)))
            .collect();
        let dsp = Dsp {
            step_seconds: 3600,
            ..Dsp::default()
        };
        assert_eq!(
            dsp.forecast_while(&samples, || true)
                .map(|forecast| forecast.errors.len()),
            Ok(8)
        );
        let tried = Cell::new(0);
        let is_wanted = || tried.replace(tried.get() + 1) < 3;
        assert_eq!(
            dsp.forecast_while(&samples, is_wanted),
            Err(DspError::Cancelled)
        );
        assert_eq!(tried.get(), 4);
    }
}
