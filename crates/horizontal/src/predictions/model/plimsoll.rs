//! Plimsoll method: `forecast::Forecaster`, once there is a day of samples that determines its
//! unit.

use forecast::{ForecastConfig, ForecastError, Forecaster, ObserveError};
use jiff::Timestamp;
use model::{ForecastSeries, Series};

use super::{ForecastRange, duration_text};
use crate::predictions::method::Quantile;

const DAY: u32 = 86_400;
const HOUR: u32 = 3600;
/// Slot of the method, unless samples are further apart.
const SLOT: u32 = 300;
/// Minimum distance of the first and the last sample before the first fit.
const ENOUGH: i64 = DAY as i64;
/// Seconds from now that the method always reaches: a day from the last complete slot.
pub(in crate::predictions) const FARTHEST: u32 = DAY - 1800;
/// Minimum history of a forecast: two days and an hour.
const LEAST: u64 = 2 * DAY as u64 + HOUR as u64;

#[derive(Debug)]
pub(in crate::predictions) struct PlimsollForecaster {
    step: u32,
    quantile: Quantile,
    horizons: Vec<u32>,
    /// Samples of the first day.
    young: Vec<(i64, f64)>,
    fitted: Option<Box<Forecaster>>,
}

impl PlimsollForecaster {
    pub(super) fn new(step: u32, quantile: Quantile, window: u32) -> Self {
        let slot = step.max(SLOT);
        // Two windows are published, and the last complete slot lies in the past.
        let far = window.saturating_mul(2).saturating_add(HOUR);
        // The end of the window that begins now is up to a slot and the time of a read further away
        // from the last complete slot.
        let end = window.saturating_add(2 * slot);
        let mut horizons: Vec<u32> = [slot, window, end, far]
            .map(|seconds| seconds.clamp(slot, DAY))
            .into();
        horizons.sort_unstable();
        horizons.dedup();
        Self {
            step,
            quantile,
            horizons,
            young: Vec::new(),
            fitted: None,
        }
    }

    fn slot(&self) -> u32 {
        self.step.max(SLOT)
    }

    pub(super) fn append(&mut self, samples: &[(i64, f64)], until: i64) {
        match &mut self.fitted {
            None => self.young.extend_from_slice(samples),
            Some(forecaster) => {
                if let Some(gap) = observe(forecaster, samples, until) {
                    // After fourteen days without a sample the fit starts anew.
                    self.fitted = None;
                    self.young = samples.get(gap..).unwrap_or_default().to_vec();
                }
            }
        }
        if self.fitted.is_none() && self.young_seconds() >= ENOUGH {
            self.fit(until);
        }
    }

    /// Seconds from the first to the last sample before the first fit.
    fn young_seconds(&self) -> i64 {
        let ends = self.young.first().zip(self.young.last());
        ends.map_or(0, |((first, _), (last, _))| last - first)
    }

    fn fit(&mut self, until: i64) {
        let at =
            |(second, value): &(i64, f64)| Some((Timestamp::from_second(*second).ok()?, *value));
        let history = Series::new(self.young.iter().filter_map(at).collect());
        let config = ForecastConfig {
            step_seconds: self.step,
            horizons_seconds: self.horizons.clone(),
        };
        if let Ok(mut forecaster) = Forecaster::fit(&history, &config) {
            observe(&mut forecaster, &[], until);
            self.fitted = Some(Box::new(forecaster));
            self.young = Vec::new();
        }
    }

    pub(super) fn forecast(&self, range: ForecastRange) -> Result<ForecastSeries, String> {
        let forecaster = self.fitted.as_deref().ok_or_else(|| {
            too_little(
                u64::try_from(self.young_seconds()).unwrap_or_default(),
                LEAST,
            )
        })?;
        let slot = self.slot();
        let forecast_at = |ahead: u32| forecaster.forecast(ahead).map_err(|error| reason(&error));
        let as_of = forecast_at(slot)?.as_of.as_second();
        let longest = self.horizons.last().copied().unwrap_or(slot);
        let (first_second, count) = range.points(self.step);
        let (mut values, mut last) = (Vec::new(), None);
        let mut second = first_second;
        while second <= range.until {
            let slots = ((second - as_of).div_euclid(i64::from(slot)) + 1).max(1);
            let ahead = u32::try_from(slots)
                .unwrap_or(u32::MAX)
                .saturating_mul(slot);
            if ahead > longest {
                break;
            }
            let value = match last {
                Some((known, value)) if known == ahead => value,
                _ => self.quantile.of(&forecast_at(ahead)?),
            };
            last = Some((ahead, value));
            values.push(value);
            second += i64::from(self.step);
        }
        if values.is_empty() {
            let age = duration_text(u64::try_from(range.now - as_of).unwrap_or_default());
            return Err(format!("the newest sample is {age} old"));
        }
        self.repeat_day(&mut values, count);
        Ok(ForecastSeries {
            first_second,
            step_seconds: self.step,
            values,
            ..ForecastSeries::default()
        })
    }

    /// Repeats the day ahead for longer ranges. Its missing minutes get the larger of its last and
    /// its first value.
    fn repeat_day(&self, values: &mut Vec<f64>, count: usize) {
        let steps = |seconds: u32| (seconds / self.step.max(1)) as usize;
        let (Some(first), Some(last)) = (values.first().copied(), values.last().copied()) else {
            return;
        };
        if self.horizons.last() != Some(&DAY) || values.len() < steps(FARTHEST) {
            return;
        }
        for index in values.len()..count {
            let before = index.checked_sub(steps(DAY));
            let value = before.and_then(|index| values.get(index)).copied();
            values.push(value.unwrap_or(first.max(last)));
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.fitted.as_ref().map_or(0, |fitted| fitted.bytes())
            + self.young.capacity() * size_of::<(i64, f64)>()
    }
}

/// Observes samples. Returns the index of the first one after a gap that is too long.
fn observe(forecaster: &mut Forecaster, samples: &[(i64, f64)], until: i64) -> Option<usize> {
    for (index, (second, value)) in samples.iter().enumerate() {
        let Ok(at) = Timestamp::from_second(*second) else {
            continue;
        };
        if forecaster.observe(at, *value) == Err(ObserveError::Gap) {
            return Some(index);
        }
    }
    let is_gap = Timestamp::from_second(until)
        .is_ok_and(|at| forecaster.advance(at) == Err(ObserveError::Gap));
    is_gap.then_some(samples.len())
}

pub(super) fn reason(error: &ForecastError) -> String {
    match error {
        ForecastError::TooLittle {
            history_seconds,
            measured_seconds,
            needed_seconds,
        } => {
            let missing = whole_hours(history_seconds.saturating_sub(*measured_seconds));
            let text = too_little(*history_seconds, *needed_seconds);
            if missing > 0 {
                format!("{text}; {} of it has no samples", duration_text(missing))
            } else {
                text
            }
        }
        other => other.to_string(),
    }
}

/// Reason for a short history. It changes once an hour, since it is written into an object.
fn too_little(history: u64, needed: u64) -> String {
    let there = match whole_hours(history) {
        0 => "less than an hour".to_owned(),
        hours => duration_text(hours),
    };
    format!(
        "too little history: {there} of at least {}",
        duration_text(needed)
    )
}

fn whole_hours(seconds: u64) -> u64 {
    seconds - seconds % u64::from(HOUR)
}
