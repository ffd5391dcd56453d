//! Fits that take seconds, as by Crane's DSP predictor, separated from the metric that they belong
//! to: a task may run on any thread.

use std::sync::Arc;

use forecast::crane::{Dsp, DspForecast};
use parking_lot::Mutex;

/// Result of a fit, or the reason for its absence.
pub type FitResult = Result<DspForecast, String>;

/// A fit of a whole history.
#[derive(Debug)]
pub struct FitTask {
    predictor: Dsp,
    samples: Vec<(i64, f64)>,
    result: Arc<Mutex<Option<FitResult>>>,
}

#[derive(Debug)]
pub(super) struct PendingFit(Arc<Mutex<Option<FitResult>>>);

impl FitTask {
    pub(super) fn new(predictor: Dsp, samples: Vec<(i64, f64)>) -> (Self, PendingFit) {
        let result = Arc::default();
        let pending = PendingFit(Arc::clone(&result));
        let task = Self {
            predictor,
            samples,
            result,
        };
        (task, pending)
    }

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

impl PendingFit {
    /// Returns the result once the task is over; an error if it was dropped or panicked.
    pub(super) fn poll(&mut self) -> Option<FitResult> {
        let result = Arc::get_mut(&mut self.0)?.get_mut().take();
        Some(result.unwrap_or_else(|| Err("the predictor failed".to_owned())))
    }
}
