//! Peak method: one value, the peak of the coming window with its headroom, from now until the end
//! of the range. The largest value of any window that begins now is this one.

use forecast::{ForecastError, ObserveError, PeakAccuracy, PeakConfig, PeakForecaster};
use jiff::Timestamp;
use model::ForecastSeries;

use super::plimsoll::reason;
use super::{ForecastRange, duration_text};

#[derive(Debug)]
pub(in crate::predictions) struct Peak {
    /// Settings; the forecaster gets them with the next samples.
    config: PeakConfig,
    forecaster: Result<Box<PeakForecaster>, ForecastError>,
}

impl Peak {
    pub(super) fn new(config: PeakConfig) -> Self {
        Self {
            config,
            forecaster: PeakForecaster::new(config).map(Box::new),
        }
    }

    /// Continues with another window or price. A user may change these at any time, so the work is
    /// left to the next read, which is paced.
    pub(super) fn continue_with(&mut self, config: PeakConfig) {
        self.config = config;
    }

    pub(super) fn accuracy(&self) -> Option<PeakAccuracy> {
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

    pub(super) fn append(&mut self, samples: &[(i64, f64)], until: i64) {
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

    pub(super) fn forecast(&self, range: ForecastRange) -> Result<ForecastSeries, String> {
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

    pub(super) fn bytes(&self) -> usize {
        self.forecaster
            .as_ref()
            .map_or(0, |forecaster| forecaster.bytes())
    }
}
