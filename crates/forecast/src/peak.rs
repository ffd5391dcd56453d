//! Largest value of the coming window, as one number: enough capacity for it must be ready before
//! the window begins.
//!
//! Each slot is described by the largest sample of the window that ends with it. One horizon, as
//! long as the window, forecasts the slot with which the coming window ends. The published value is
//! the expected one plus headroom (`headroom.rs`), or that of a simple method while it is better
//! (`simple_guard.rs`).
//!
//! The largest of several quantiles of means is no quantile of a peak: it holds idle capacity for
//! each of them, and misses the largest sample within a slot.

mod headroom;
mod simple_guard;

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use model::Series;

pub use headroom::PriceOfFailure;
pub(crate) use simple_guard::SimpleForecasts;
pub use simple_guard::{PeakAccuracy, SetAside, SimpleMethod};

use crate::ewma::{Ewma, decay_factor};
use crate::forecaster::{ForecastConfig, Forecaster};
use crate::grid::Grid;
use crate::output::{Forecast, ForecastError, ObserveError};
use crate::seasons::DAYS;
use simple_guard::{Pending, SimpleGuard};

/// Half-life of the usual peak, to which the price of failure refers.
const USUAL_DAYS: f64 = 7.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakConfig {
    pub step_seconds: u32,
    /// Length of the window in seconds, from one slot to a day: the time until new capacity is
    /// ready, plus a slot.
    pub window_seconds: u32,
    /// Headroom above the expected peak.
    pub price_of_failure: PriceOfFailure,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PeakForecast {
    /// Start of the window: the end of the newest complete slot.
    pub from: Timestamp,
    /// Length of the window, a whole number of slots.
    pub length: SignedDuration,
    /// Mean of the peak.
    pub expected: f64,
    /// Expected peak plus headroom.
    pub value: f64,
    /// The simple method that replaces the expected value, while it is better.
    pub replaced_by: Option<SimpleMethod>,
    /// Accuracy over the last day; `None` before a day of forecasts.
    pub accuracy: Option<PeakAccuracy>,
}

/// Forecaster of the peak of the coming window. Without a clock.
#[derive(Clone, Debug)]
pub struct PeakForecaster {
    config: PeakConfig,
    grid: Grid,
    /// Slots of the window.
    horizon: usize,
    /// Samples of the window that ends with the open slot, in seconds since 1970.
    samples: VecDeque<(i64, f64)>,
    open_slot: Option<i64>,
    /// Peaks of the first day, which sets the unit of the forecaster.
    first_day: Vec<(Timestamp, f64)>,
    forecaster: Option<Box<Forecaster>>,
    usual: Ewma,
    guard: SimpleGuard,
    /// Largest sample of each of the last completed slots, oldest first; NaN without a sample.
    slot_peaks: VecDeque<f32>,
}

impl PeakForecaster {
    pub fn new(config: PeakConfig) -> Result<Self, ForecastError> {
        let grid = Grid::new(config.step_seconds)?;
        let horizon = grid.ahead(config.window_seconds.max(grid.slot_seconds))?;
        Ok(Self::empty(config, grid, horizon))
    }

    fn empty(config: PeakConfig, grid: Grid, horizon: usize) -> Self {
        Self {
            config,
            grid,
            horizon,
            samples: VecDeque::new(),
            open_slot: None,
            first_day: Vec::new(),
            forecaster: None,
            usual: Ewma::default(),
            guard: SimpleGuard::new(&grid, horizon),
            slot_peaks: VecDeque::new(),
        }
    }

    pub fn config(&self) -> PeakConfig {
        self.config
    }

    /// The forecaster with another window or price, from the same history of fourteen days. Earlier
    /// samples of a window that is no whole number of slots count by their slot. The step must be
    /// the same.
    pub fn with_config(&self, config: PeakConfig) -> Result<Self, ForecastError> {
        let mut changed = Self::new(config)?;
        let Some(open) = self.open_slot else {
            return Ok(changed);
        };
        let length = i64::from(self.grid.slot_seconds);
        let first = open - self.slot_peaks.len() as i64;
        let known = self.slot_peaks.iter().enumerate();
        let measured = known.filter(|(_, peak)| !peak.is_nan());
        let earlier = measured.map(|(index, peak)| {
            let end = (first + index as i64 + 1) * length;
            (end - 1, f64::from(*peak))
        });
        let newest = self.samples.iter().copied();
        for (second, value) in earlier.chain(newest.filter(|(at, _)| *at >= open * length)) {
            if let Ok(at) = Timestamp::from_second(second) {
                let _ = changed.observe(at, value);
            }
        }
        if let Ok(now) = Timestamp::from_second(open * length) {
            let _ = changed.advance(now);
        }
        Ok(changed)
    }

    /// Adds a sample. A sample of a later slot completes the slots before it. After a gap of
    /// fourteen days the forecaster is empty again, without the sample.
    pub fn observe(&mut self, at: Timestamp, value: f64) -> Result<(), ObserveError> {
        if !value.is_finite() {
            return Err(ObserveError::NotFinite);
        }
        let slot = self.grid.slot(at.as_second());
        if self.open_slot.is_some_and(|open| slot < open) {
            return Err(ObserveError::Late);
        }
        self.complete_before(slot)?;
        self.open_slot = Some(slot);
        self.samples.push_back((at.as_second(), value));
        Ok(())
    }

    /// Completes the slots that ended by `now`, with or without samples.
    pub fn advance(&mut self, now: Timestamp) -> Result<(), ObserveError> {
        self.complete_before(self.grid.slot(now.as_second()))
    }

    /// The forecast of the window after the newest complete slot.
    pub fn forecast(&self) -> Result<PeakForecast, ForecastError> {
        let forecaster = self.forecaster.as_deref().ok_or_else(|| self.too_young())?;
        let forecast = forecaster.forecast(self.ahead_seconds())?;
        let simple = forecaster.simple_forecasts(self.horizon);
        let (replaced_by, expected) = self.expected(&forecast, &simple);
        Ok(PeakForecast {
            from: forecast.as_of,
            length: SignedDuration::from_secs(self.ahead_seconds().into()),
            expected,
            value: expected + self.headroom(&forecast),
            replaced_by,
            accuracy: self.guard.accuracy(),
        })
    }

    /// The expected value, or that of the simple method that replaces it.
    fn expected(
        &self,
        forecast: &Forecast,
        simple: &SimpleForecasts,
    ) -> (Option<SimpleMethod>, f64) {
        match self.guard.replacement(simple) {
            Some((method, value)) => (Some(method), value),
            None => (None, forecast.expected),
        }
    }

    fn headroom(&self, forecast: &Forecast) -> f64 {
        let usual = self.usual.mean().unwrap_or_default();
        self.config.price_of_failure.headroom(forecast, usual)
    }

    /// Approximate memory in bytes.
    pub fn bytes(&self) -> usize {
        let forecaster = self.forecaster.as_ref();
        size_of::<Self>()
            + self.samples.capacity() * size_of::<(i64, f64)>()
            + self.first_day.capacity() * size_of::<(Timestamp, f64)>()
            + self.slot_peaks.capacity() * size_of::<f32>()
            + self.guard.bytes()
            + forecaster.map_or(0, |forecaster| forecaster.bytes())
    }

    fn complete_before(&mut self, slot: i64) -> Result<(), ObserveError> {
        let longest = (DAYS * self.grid.per_day) as i64;
        let is_gap = |open: i64| slot.saturating_sub(open) > longest;
        if self.open_slot.is_some_and(is_gap) {
            *self = Self::empty(self.config, self.grid, self.horizon);
            return Err(ObserveError::Gap);
        }
        while let Some(open) = self.open_slot.filter(|open| *open < slot) {
            self.complete(open);
            self.open_slot = Some(open + 1);
        }
        Ok(())
    }

    /// Completes one slot: learns its peak, evaluates what was forecast for it, and forecasts from
    /// it.
    fn complete(&mut self, slot: i64) {
        let length = i64::from(self.grid.slot_seconds);
        let (start, end) = (slot * length, (slot + 1) * length);
        let first = end - i64::from(self.config.window_seconds).max(length);
        while self.samples.pop_front_if(|(at, _)| *at < first).is_some() {}
        let slot_peak = self.slot_peak(start);
        let is_measured = slot_peak.is_some();
        let values = self.samples.iter().map(|(_, value)| *value);
        let peak = values.reduce(f64::max).filter(|_| is_measured);
        self.remember(slot_peak);
        let (Ok(at), Ok(now)) = (Timestamp::from_second(start), Timestamp::from_second(end)) else {
            return;
        };
        if let Some(peak) = peak {
            let decay = decay_factor(self.grid.days(USUAL_DAYS));
            self.usual.add(decay, peak.abs());
        }
        match &mut self.forecaster {
            None => self.begin(at, now, peak),
            Some(forecaster) => learn(forecaster, at, now, peak),
        }
        let Some(forecaster) = &self.forecaster else {
            return;
        };
        let ensemble = forecaster.forecast(self.ahead_seconds()).ok();
        let simple = forecaster.simple_forecasts(self.horizon);
        let published = ensemble.as_ref().map(|forecast| {
            let (_, expected) = self.expected(forecast, &simple);
            expected + self.headroom(forecast)
        });
        let pending = Pending {
            expected: ensemble.as_ref().map(|forecast| forecast.expected),
            value: published.unwrap_or(f64::INFINITY),
            simple,
        };
        self.guard.step(peak, pending);
    }

    /// Largest sample from a second on.
    fn slot_peak(&self, start: i64) -> Option<f64> {
        let samples = self.samples.iter().rev();
        let of_slot = samples.take_while(|(at, _)| *at >= start);
        of_slot.map(|(_, value)| *value).reduce(f64::max)
    }

    fn remember(&mut self, slot_peak: Option<f64>) {
        if self.slot_peaks.len() == DAYS * self.grid.per_day {
            self.slot_peaks.pop_front();
        }
        let stored = slot_peak.map_or(f32::NAN, |peak| peak as f32);
        self.slot_peaks.push_back(stored);
    }

    fn ahead_seconds(&self) -> u32 {
        self.horizon as u32 * self.grid.slot_seconds
    }

    /// Collects the first day, after which the forecaster learns it.
    fn begin(&mut self, at: Timestamp, now: Timestamp, peak: Option<f64>) {
        self.first_day.extend(peak.map(|peak| (at, peak)));
        let day = SignedDuration::from_hours(24);
        let is_day = |(first, _): &(Timestamp, f64)| now.duration_since(*first) >= day;
        if !self.first_day.first().is_some_and(is_day) {
            return;
        }
        let config = ForecastConfig {
            step_seconds: self.grid.slot_seconds,
            horizons_seconds: vec![self.ahead_seconds()],
        };
        let history = Series::new(std::mem::take(&mut self.first_day));
        if let Ok(mut forecaster) = Forecaster::fit(&history, &config) {
            learn(&mut forecaster, at, now, None);
            self.forecaster = Some(Box::new(forecaster));
        }
    }

    fn too_young(&self) -> ForecastError {
        let seconds = |slots: usize| slots as u64 * u64::from(self.grid.slot_seconds);
        ForecastError::TooLittle {
            history_seconds: seconds(self.first_day.len()),
            measured_seconds: seconds(self.first_day.len()),
            needed_seconds: seconds(2 * self.grid.per_day + self.horizon),
        }
    }
}

/// Completes a slot of the forecaster, with its peak if there is one. Slots come one by one, so
/// none is late and no gap is long.
fn learn(forecaster: &mut Forecaster, at: Timestamp, now: Timestamp, peak: Option<f64>) {
    if let Some(peak) = peak {
        let _ = forecaster.observe(at, peak);
    }
    let _ = forecaster.advance(now);
}
