//! Crane's DSP predictor on Crane's schedule: a new model every twelve hours from fifteen days and
//! an hour, used until it ends.
//!
//! Without a model the last value is used, as a horizontal autoscaler would.

use forecast::crane::{Dsp, DspForecast, Estimator};

const HISTORY_SECONDS: i64 = 15 * 86_400 + 3600;
const REFRESH_SECONDS: i64 = 12 * 3600;

pub(crate) struct CranePeer {
    dsp: Dsp,
    step: i64,
    samples: Vec<(i64, f64)>,
    next_refresh: Option<i64>,
    model: Option<DspForecast>,
}

impl CranePeer {
    pub(crate) fn new(slot_seconds: u32) -> Self {
        Self {
            dsp: Dsp {
                step_seconds: slot_seconds,
                estimators: Estimator::defaults(),
            },
            step: i64::from(slot_seconds),
            samples: Vec::new(),
            next_refresh: None,
            model: None,
        }
    }

    /// Adds the next slot. Models are built only while `is_scored`.
    pub(crate) fn push(&mut self, second: i64, value: Option<f64>, is_scored: bool) {
        self.samples.extend(value.map(|value| (second, value)));
        if is_scored && self.next_refresh.is_none_or(|next| second >= next) {
            let start = self
                .samples
                .partition_point(|(at, _)| *at < second - HISTORY_SECONDS);
            // A series that stops being periodic keeps its old model, as in Crane.
            if let Ok(model) = self.dsp.forecast_while(&self.samples[start..], || true) {
                self.model = Some(model);
            }
            self.next_refresh = Some(second + REFRESH_SECONDS);
        }
    }

    pub(crate) fn forecast(&self, second: i64) -> Option<f64> {
        let model = self.model.as_ref()?;
        let steps = usize::try_from((second - model.first_second) / self.step).ok()?;
        let is_over = steps >= model.period.len() * model.periods;
        (!is_over).then(|| model.period[steps % model.period.len()])
    }
}
