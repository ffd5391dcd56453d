//! Peaks of the coming hours, forecast at every full hour from the samples before it, and whether
//! the daily profile of a series is proven by then.

use forecast::{PeakConfig, PeakForecaster, PriceOfFailure};
use replay::{Series, timestamp};

pub(super) const HOUR: i64 = 3600;
const DAY: usize = 24;
/// Lengths in hours of the windows that are forecast.
pub(super) const WINDOWS: [usize; 5] = [1, 2, 4, 8, 12];
/// Days of a profile, and the number without which there is no profile.
const DAYS: usize = 7;
const MINIMUM_DAYS: usize = 3;
/// Position in [`WINDOWS`] of the window whose forecasts prove a profile.
const PROOF: usize = 2;
/// Factor by which the weights of errors decay in an hour: they halve in seven days.
const ERROR_DECAY: f64 = 0.995_882_7;
/// Errors of a proven profile as a share of those of the recent level.
const PROVEN_SHARE: f64 = 0.9;
/// Hours of errors without which nothing is proven.
const PROOF_HOURS: usize = 4 * DAY;

/// Peaks of the windows that begin with an hour; `None` without enough history.
pub(super) type Peaks = [Option<f64>; WINDOWS.len()];

/// Forecasts of one series. Hours count from that of the first sample. What is known at the begin
/// of an hour depends on no sample of that hour or later.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Forecasts {
    /// Means of the same windows on the seven days before.
    pub(super) profile: Vec<Peaks>,
    /// Those of the forecaster of production.
    pub(super) forecaster: Vec<Peaks>,
    /// Whether the profile is proven.
    pub(super) is_proven: Vec<bool>,
}

impl Forecasts {
    pub(super) fn new(series: &Series) -> Self {
        let peaks = hourly_peaks(series);
        let hours = 0..=peaks.len();
        let profile: Vec<Peaks> = hours.map(|hour| profile(&peaks, hour)).collect();
        Self {
            is_proven: proofs(&peaks, &profile),
            forecaster: of_forecaster(series, peaks.len()),
            profile,
        }
    }

    /// The share of the hours from `first` on in which the profile is proven.
    pub(super) fn proven_share(&self, first: usize) -> f64 {
        let hours = self.is_proven.get(first..).unwrap_or_default();
        let proven = hours.iter().filter(|is_proven| **is_proven).count();
        proven as f64 / hours.len().max(1) as f64
    }
}

/// The hour of a slot's start, from the first one.
pub(super) fn hour_of(start: i64, second: i64) -> usize {
    let hours = second.div_euclid(HOUR) - start.div_euclid(HOUR);
    usize::try_from(hours).unwrap_or(0)
}

fn hourly_peaks(series: &Series) -> Vec<f64> {
    let mut peaks = Vec::new();
    for (slot, usage) in (0..).zip(&series.usage) {
        let hour = hour_of(series.start, series.start + slot * series.step);
        peaks.resize(peaks.len().max(hour + 1), 0.0_f64);
        peaks[hour] = peaks[hour].max(*usage);
    }
    peaks
}

pub(super) fn highest(peaks: &[f64]) -> f64 {
    peaks.iter().copied().fold(0.0, f64::max)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn profile(peaks: &[f64], hour: usize) -> Peaks {
    WINDOWS.map(|window| {
        let starts = (1..=DAYS).filter_map(|day| hour.checked_sub(day * DAY));
        let days: Vec<f64> = starts
            .map(|start| highest(&peaks[start..start + window]))
            .collect();
        (days.len() >= MINIMUM_DAYS).then(|| mean(&days))
    })
}

/// Whether a profile is proven at the begin of each hour: it has predicted the peaks of the windows
/// that are over by then better than the peak of as many hours before them, and than the mean peak
/// of such windows in the day before them.
fn proofs(peaks: &[f64], profile: &[Peaks]) -> Vec<bool> {
    let window = WINDOWS[PROOF];
    let (mut errors, mut scored) = ([0.0; 3], 0);
    let proof = |hour: usize| {
        let start = hour.checked_sub(window);
        let forecast = start.and_then(|start| Some((start, profile[start][PROOF]?)));
        let Some((start, seasonal)) = forecast else {
            return false;
        };
        let peak_from = |start: usize| highest(&peaks[start..start + window]);
        let need = peak_from(start);
        let before: Vec<f64> = (window..window + DAY)
            .map(|ago| peak_from(start - ago))
            .collect();
        for (error, forecast) in errors.iter_mut().zip([seasonal, before[0], mean(&before)]) {
            *error = *error * ERROR_DECAY + (need - forecast).abs();
        }
        scored += 1;
        let [seasonal, level, mean] = errors;
        scored >= PROOF_HOURS && seasonal < PROVEN_SHARE * level.min(mean)
    };
    (0..profile.len()).map(proof).collect()
}

fn of_forecaster(series: &Series, hours: usize) -> Vec<Peaks> {
    let mut all = vec![Peaks::default(); hours + 1];
    for (index, window) in WINDOWS.into_iter().enumerate() {
        let config = PeakConfig {
            step_seconds: u32::try_from(series.step).unwrap_or(300).max(300),
            window_seconds: (window as i64 * HOUR) as u32,
            price_of_failure: PriceOfFailure::NORMAL,
        };
        let Ok(mut forecaster) = PeakForecaster::new(config) else {
            continue;
        };
        for (slot, usage) in (0..).zip(&series.usage) {
            let start = series.start + slot * series.step;
            let end = start + series.step;
            // Samples are in order and finite.
            let _ = forecaster.observe(timestamp(start), *usage);
            if end % HOUR == 0 {
                let _ = forecaster.advance(timestamp(end));
                let forecast = forecaster.forecast().ok();
                let hour = hour_of(series.start, end);
                all[hour][index] = forecast.map(|forecast| forecast.expected);
            }
        }
    }
    all
}
