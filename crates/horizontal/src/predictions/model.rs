//! Model of one series: its history in memory, and the forecast from it.

mod dsp;
mod plimsoll;

use std::collections::BTreeMap;

use forecast::{ForecastError, ObserveError, PeakAccuracy, PeakConfig, PeakForecaster};
use jiff::Timestamp;
use model::ForecastSeries;
use sizing::{PercentilePredictor, WeightedHistogram};

use super::method::Method;
use super::published_series::MAX_SERIES_POINTS;
pub(super) use dsp::Dsp;
pub use dsp::{FitResult, FitTask};
pub(super) use plimsoll::FARTHEST;
use plimsoll::{PlimsollForecaster, reason};

pub type Labels = BTreeMap<String, String>;

#[derive(Debug)]
pub(super) enum Model {
    Plimsoll(PlimsollForecaster),
    Peak(Peak),
    Dsp(Dsp),
    Percentile(Percentile),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ForecastRange {
    /// Start, in seconds since 1970.
    pub(super) now: i64,
    /// End, in seconds since 1970.
    pub(super) until: i64,
}

impl ForecastRange {
    /// The first point of a forecast with this step, and the number of its points.
    fn points(self, step_seconds: u32) -> (i64, usize) {
        let first_second = floor(self.now, step_seconds);
        let count = (self.until - first_second).max(0) / i64::from(step_seconds.max(1)) + 1;
        (first_second, usize::try_from(count).unwrap_or_default())
    }
}

impl Model {
    /// Creates an empty model. `refit_seconds` is the interval of DSP fits, as in Crane.
    pub(super) fn new(method: &Method, window_seconds: u32, refit_seconds: i64) -> Self {
        match method {
            Method::Plimsoll {
                step_seconds,
                quantile,
            } => Self::Plimsoll(PlimsollForecaster::new(
                *step_seconds,
                *quantile,
                window_seconds,
            )),
            Method::Peak(config) => Self::Peak(Peak::new(*config)),
            Method::Dsp {
                dsp,
                history_seconds,
            } => Self::Dsp(Dsp::new(dsp.clone(), *history_seconds, refit_seconds)),
            Method::Percentile {
                predictor,
                step_seconds,
                ..
            } => Self::Percentile(Percentile::new(predictor.clone(), *step_seconds)),
        }
    }

    /// Appends samples in time order, newer than all before, and marks the series complete up to
    /// `until`.
    pub(super) fn append(&mut self, samples: &[(i64, f64)], until: i64) {
        match self {
            Self::Plimsoll(forecaster) => forecaster.append(samples, until),
            Self::Peak(peak) => peak.append(samples, until),
            Self::Dsp(dsp) => dsp.append(samples, until),
            Self::Percentile(percentile) => percentile.append(samples),
        }
    }

    /// Continues with the settings of another method of the same kind, from the next samples on.
    pub(super) fn continue_with(&mut self, method: &Method) {
        if let (Self::Peak(peak), Method::Peak(config)) = (self, method) {
            peak.continue_with(*config);
        }
    }

    /// Accuracy over the last day, if the method knows it.
    pub(super) fn accuracy(&self) -> Option<PeakAccuracy> {
        match self {
            Self::Peak(peak) => peak.accuracy(),
            _ => None,
        }
    }

    /// The model whose fits run elsewhere.
    pub(super) fn dsp(&self) -> Option<&Dsp> {
        match self {
            Self::Dsp(dsp) => Some(dsp),
            _ => None,
        }
    }

    pub(super) fn dsp_mut(&mut self) -> Option<&mut Dsp> {
        match self {
            Self::Dsp(dsp) => Some(dsp),
            _ => None,
        }
    }

    pub(super) fn forecast(&self, range: ForecastRange) -> Result<ForecastSeries, String> {
        let series = match self {
            Self::Plimsoll(forecaster) => forecaster.forecast(range),
            Self::Peak(peak) => peak.forecast(range),
            Self::Dsp(dsp) => dsp.forecast(range),
            Self::Percentile(percentile) => percentile.forecast(range),
        }?;
        if series.values.iter().all(|value| value.is_finite()) {
            Ok(series)
        } else {
            Err("the forecast is not a finite number".to_owned())
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Plimsoll(forecaster) => forecaster.bytes(),
            Self::Peak(peak) => peak.bytes(),
            Self::Dsp(dsp) => dsp.bytes(),
            Self::Percentile(percentile) => percentile.bytes(),
        }
    }
}

/// The last multiple of a step up to a time.
pub(super) fn floor(second: i64, step: u32) -> i64 {
    second - second.rem_euclid(i64::from(step.max(1)))
}

/// A duration as text, such as `2d 1h`, in its two largest units.
pub(super) fn duration_text(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];
    let mut rest = seconds;
    let counts = units.map(|(name, length)| {
        let count = rest / length;
        rest %= length;
        (count, name)
    });
    let largest = counts.iter().skip_while(|(count, _)| *count == 0).take(2);
    let shown = largest.take_while(|(count, _)| *count > 0);
    let parts = shown.map(|(count, name)| format!("{count}{name}"));
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        "nothing".to_owned()
    } else {
        parts.join(" ")
    }
}

/// Crane's percentile predictor: a constant. As in Crane, samples do not age out.
/// Memory of a bucket: its number and weight, in a tree.
const BUCKET_BYTES: usize = 24;

/// Crane's percentile predictor: a constant. As in Crane, samples do not age out.
#[derive(Debug)]
pub(in crate::predictions) struct Percentile {
    predictor: PercentilePredictor,
    step: u32,
    histogram: WeightedHistogram,
    samples: u64,
}

impl Percentile {
    fn new(predictor: PercentilePredictor, step: u32) -> Self {
        Self {
            predictor,
            step,
            histogram: WeightedHistogram::default(),
            samples: 0,
        }
    }

    fn append(&mut self, samples: &[(i64, f64)]) {
        for (_, value) in samples {
            self.predictor.add(&mut self.histogram, *value);
            self.samples = self.samples.saturating_add(1);
        }
    }

    fn forecast(&self, range: ForecastRange) -> Result<ForecastSeries, String> {
        if self.samples == 0 {
            return Err("there are no samples".to_owned());
        }
        let (first_second, count) = range.points(self.step);
        // All values are equal, so longer steps lose nothing.
        let factor = count.div_ceil(MAX_SERIES_POINTS).max(1);
        let longer = u32::try_from(factor).unwrap_or(u32::MAX);
        Ok(ForecastSeries {
            first_second,
            step_seconds: self.step.saturating_mul(longer),
            values: vec![self.predictor.predict(&self.histogram); count.div_ceil(factor)],
            ..ForecastSeries::default()
        })
    }

    fn bytes(&self) -> usize {
        self.histogram.buckets() * BUCKET_BYTES
    }
}

/// The peak of the coming window with its headroom, from now until the end of the range. The largest
/// value of any window that begins now is this one.
#[derive(Debug)]
pub(in crate::predictions) struct Peak {
    /// Settings; the forecaster gets them with the next samples.
    config: PeakConfig,
    forecaster: Result<Box<PeakForecaster>, ForecastError>,
}

impl Peak {
    fn new(config: PeakConfig) -> Self {
        Self {
            config,
            forecaster: PeakForecaster::new(config).map(Box::new),
        }
    }

    /// Continues with another window or price. A user may change these at any time, so the work is
    /// left to the next read, which is paced.
    fn continue_with(&mut self, config: PeakConfig) {
        self.config = config;
    }

    fn accuracy(&self) -> Option<PeakAccuracy> {
        let forecaster = self.forecaster.as_ref().ok()?;
        forecaster.forecast().ok()?.accuracy
    }

    fn apply_config(&mut self) {
        match &self.forecaster {
            Ok(forecaster) if forecaster.config() != self.config => {
                self.forecaster = forecaster.with_config(self.config).map(Box::new);
            }
            Ok(_) => {}
            Err(_) => self.forecaster = PeakForecaster::new(self.config).map(Box::new),
        }
    }

    fn append(&mut self, samples: &[(i64, f64)], until: i64) {
        self.apply_config();
        let Ok(forecaster) = &mut self.forecaster else {
            return;
        };
        for (second, value) in samples {
            let Ok(at) = Timestamp::from_second(*second) else {
                continue;
            };
            if forecaster.observe(at, *value) == Err(ObserveError::Gap) {
                // The forecaster is empty now, so the sample is its first.
                let _ = forecaster.observe(at, *value);
            }
        }
        if let Ok(at) = Timestamp::from_second(until) {
            let _ = forecaster.advance(at);
        }
    }

    fn forecast(&self, range: ForecastRange) -> Result<ForecastSeries, String> {
        let forecaster = self.forecaster.as_ref().map_err(reason)?;
        let forecast = forecaster.forecast().map_err(|error| reason(&error))?;
        let age = range.now - forecast.from.as_second();
        if age > forecast.length.as_secs() {
            let age = duration_text(u64::try_from(age).unwrap_or_default());
            return Err(format!("the newest sample is {age} old"));
        }
        let step_seconds = self.config.step_seconds;
        let (first_second, count) = range.points(step_seconds);
        Ok(ForecastSeries {
            first_second,
            step_seconds,
            values: vec![forecast.value; count],
            ..ForecastSeries::default()
        })
    }

    fn bytes(&self) -> usize {
        self.forecaster
            .as_ref()
            .map_or(0, |forecaster| forecaster.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seconds: u64, expected: &str) {
        assert_eq!(duration_text(seconds), expected);
    }

    #[test]
    fn durations_are_shown_in_two_units() {
        check(0, "nothing");
        check(59, "59s");
        check(3600, "1h");
        check(86_400 * 2 + 3600 + 60, "2d 1h");
        check(86_400 + 60, "1d");
        check(3661, "1h 1m");
    }
}
