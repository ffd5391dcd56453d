//! Crane's DSP predictor. A fit of all samples takes long and runs elsewhere; its forecast serves
//! until the next one.
//!
//! As in Crane every 12 hours, and more often without a result. Unlike there, a series that is no
//! longer periodic has no forecast.

use std::collections::VecDeque;
use std::sync::Arc;

use forecast::crane;
use model::ForecastSeries;
use parking_lot::Mutex;

use super::{ForecastRange, floor};

/// Seconds until the next fit after one without a result.
const AGAIN: i64 = 3600;

#[derive(Debug)]
pub(in crate::predictions) struct Dsp {
    predictor: crane::Dsp,
    history_seconds: i64,
    refit_seconds: i64,
    samples: VecDeque<(i64, f64)>,
    /// Last result, with the end of its samples.
    found: Option<(i64, FitResult)>,
    next: Next,
}

/// Next fit, with the end of its samples.
#[derive(Debug)]
enum Next {
    Nothing,
    /// Due, not started.
    Wanted(i64),
    /// The task has the other reference to the result.
    Awaited(i64, Arc<Mutex<Option<FitResult>>>),
}

impl Dsp {
    pub(super) fn new(predictor: crane::Dsp, history_seconds: u32, refit_seconds: i64) -> Self {
        // An hour more is read; the fit uses a whole number of hours.
        let history_seconds = i64::from(history_seconds) + 3600;
        Self {
            predictor,
            history_seconds,
            refit_seconds,
            samples: VecDeque::new(),
            found: None,
            next: Next::Nothing,
        }
    }

    pub(super) fn append(&mut self, samples: &[(i64, f64)], until: i64) {
        self.samples.extend(samples);
        let first = until - self.history_seconds;
        let samples = &mut self.samples;
        while samples
            .pop_front_if(|(second, _)| *second < first)
            .is_some()
        {}
        let is_due = self.found.as_ref().is_none_or(|(at, found)| {
            let again = if found.is_ok() { i64::MAX } else { AGAIN };
            until - at >= again.min(self.refit_seconds)
        });
        if is_due && !matches!(self.next, Next::Awaited(..)) {
            self.next = Next::Wanted(until);
        }
    }

    pub(in crate::predictions) fn awaits_fit(&self) -> bool {
        matches!(self.next, Next::Wanted(_))
    }

    pub(in crate::predictions) fn fit_task(&mut self) -> Option<FitTask> {
        let Next::Wanted(until) = self.next else {
            return None;
        };
        let result = Arc::default();
        self.next = Next::Awaited(until, Arc::clone(&result));
        Some(FitTask {
            predictor: self.predictor.clone(),
            samples: self.samples.iter().copied().collect(),
            result,
        })
    }

    /// Takes the result of a finished fit, an error if the task was dropped or panicked. Returns
    /// whether there was one.
    pub(in crate::predictions) fn collect_fits(&mut self) -> bool {
        let Next::Awaited(until, result) = &mut self.next else {
            return false;
        };
        let Some(result) = Arc::get_mut(result) else {
            return false;
        };
        let failed = || Err("the predictor failed".to_owned());
        let found = result.get_mut().take().unwrap_or_else(failed);
        self.found = Some((*until, found));
        self.next = Next::Nothing;
        true
    }

    pub(in crate::predictions) fn is_pending(&self) -> bool {
        self.found.is_none() && !matches!(self.next, Next::Nothing)
    }

    pub(super) fn forecast(&self, range: ForecastRange) -> Result<ForecastSeries, String> {
        let (_, found) = self.found.as_ref().ok_or("there are no samples")?;
        let found = found.as_ref().map_err(Clone::clone)?;
        let step_seconds = self.predictor.step_seconds.max(1);
        let step = i64::from(step_seconds);
        let per_period = found.period.len();
        let first_second = floor(range.now, step_seconds).max(found.first_second);
        let index =
            |second: i64| usize::try_from((second - found.first_second).div_euclid(step)).ok();
        let value = |second: i64| {
            let index = index(second).filter(|index| *index < per_period * found.periods)?;
            found.period.get(index.checked_rem(per_period)?).copied()
        };
        let seconds = (0..)
            .map(|number: i64| first_second + number * step)
            .take_while(|second| *second <= range.until);
        let values: Vec<f64> = seconds.map_while(value).collect();
        if values.is_empty() {
            return Err("the last forecast has ended".to_owned());
        }
        Ok(ForecastSeries {
            first_second,
            step_seconds,
            values,
            ..ForecastSeries::default()
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let found = self.found.as_ref();
        let found = found.and_then(|(_, found)| found.as_ref().ok());
        let period = found.map_or(0, |found| found.period.len());
        self.samples.capacity() * size_of::<(i64, f64)>() + period * size_of::<f64>()
    }
}

/// Result of a fit, or the reason for its absence.
pub type FitResult = Result<crane::DspForecast, String>;

/// A fit of a whole history, separated from the metric that it belongs to: a task may run on any
/// thread.
#[derive(Debug)]
pub struct FitTask {
    predictor: crane::Dsp,
    samples: Vec<(i64, f64)>,
    result: Arc<Mutex<Option<FitResult>>>,
}

impl FitTask {
    /// Fits the history. Stops at the next estimator once the metric no longer waits for the result.
    pub fn run(self) {
        let is_awaited = || Arc::strong_count(&self.result) > 1;
        if is_awaited() {
            let result = self.predictor.forecast_while(&self.samples, is_awaited);
            let result = result.map_err(|error| error.to_string());
            *self.result.lock() = Some(result);
        }
    }
}
