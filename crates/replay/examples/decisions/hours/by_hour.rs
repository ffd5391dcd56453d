//! Requests by hour of the day: those of the policy "price of failure", but while the daily profile
//! of a container is proven, the request follows the needs of the coming hours.

use std::sync::Arc;

use jiff::Timestamp;
use replay::Policy;
use sizing::price_of_failure::{History, Reason, Settings};

use super::costs::{Prices, cheapest};
use super::forecasts::{Forecasts, Peaks, WINDOWS, highest, hour_of};
use super::histogram::{Histogram, Needs};

/// Source of the needs of the coming hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Design {
    /// The needs of the same hours on the last seven days, also an hour earlier and an hour later.
    SameHours,
    /// The mean peak of the same hours on the last seven days, times past ratios of needs to it.
    Profile,
    /// The forecaster of production, times past ratios of needs to its forecasts.
    Forecaster,
}

/// Rules of all containers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) design: Design,
    pub(super) settings: Settings,
    /// Whether a failure lasts as long as usage is above the request.
    pub(super) lasts: bool,
    /// Factor of the price of a change while the profile is proven.
    pub(super) change: f64,
}

/// Factor of the prices of failure while the profile is proven: failures in several short windows
/// count less than in one of six hours. Chosen on every other machine of Bitbrains.
const CAUTION: f64 = 2.5;
/// Expected chance that the raise after a smaller request is refused. That share of the price of a
/// failure is part of the price of a smaller request.
const REFUSED: f64 = 0.05;
const DAY: usize = 24;
const DAYS: usize = 7;
/// Factor by which the weights of ratios decay in an hour: they halve in four days.
const DECAY: f64 = 0.992_805_720_491_269;
/// Weight in hours of needs above all recent ones: that of the flat policy, for failures that happen
/// once and for those that last. For the same hours, as windows of seven days.
const NOVELTY: f64 = 2.0;
const NOVELTY_LASTING: f64 = 1.0 / 6.0;
const NOVELTY_OF_DAYS: f64 = 1.0;
/// The lowest forecast that ratios refer to, in millicores or MiB.
const LOWEST: f64 = 10.0;
/// Unit of amounts in histograms, in millicores or MiB.
const UNIT: f64 = 100.0;

#[derive(Clone, Debug)]
pub(super) struct ByHour {
    rules: Rules,
    flat: History,
    forecasts: Arc<Forecasts>,
    /// Second of the first sample.
    start: Option<i64>,
    /// Samples and peak of each hour.
    samples: Vec<Vec<f64>>,
    peaks: Vec<f64>,
    /// Ratios of needs to forecasts, by window, and the highest ratio of each hour.
    ratios: Vec<(Histogram, Vec<f64>)>,
    /// The hour before which ratios are known.
    known: usize,
}

impl ByHour {
    pub(super) fn new(rules: Rules, forecasts: Arc<Forecasts>) -> Self {
        Self {
            rules,
            flat: History::default(),
            forecasts,
            start: None,
            samples: Vec::new(),
            peaks: Vec::new(),
            ratios: vec![Default::default(); WINDOWS.len()],
            known: 0,
        }
    }

    fn forecast(&self, hour: usize) -> Peaks {
        let forecasts = match self.rules.design {
            Design::SameHours | Design::Profile => &self.forecasts.profile,
            Design::Forecaster => &self.forecasts.forecaster,
        };
        let forecast = forecasts.get(hour).copied().unwrap_or_default();
        forecast.map(|peak| peak.map(|peak| peak.max(LOWEST)))
    }

    /// Learns the ratios of the windows that ended with an hour.
    fn learn(&mut self, hour: usize) {
        for (index, window) in WINDOWS.into_iter().enumerate() {
            let start = hour.checked_sub(window);
            let Some(forecast) = start.and_then(|start| self.forecast(start)[index]) else {
                continue;
            };
            let hours = hour - window..hour;
            let peak = highest(&self.peaks[hours.clone()]) / forecast;
            let (ratios, peaks) = &mut self.ratios[index];
            ratios.scale(DECAY);
            peaks.push(peak);
            let samples = &self.samples[hours];
            add_needs(ratios, self.rules.lasts, samples, peak, forecast);
        }
    }

    /// The needs of the windows that begin with an hour.
    fn needs(&self, hour: usize) -> Vec<(usize, Needs)> {
        let forecast = self.forecast(hour);
        let windows = WINDOWS.into_iter().zip(forecast).zip(&self.ratios);
        let needs = windows.filter_map(|((window, forecast), (ratios, peaks))| {
            let needs = match self.rules.design {
                Design::SameHours => self.same_hours(hour, window).needs(UNIT),
                Design::Profile | Design::Forecaster => {
                    let week = &peaks[peaks.len().saturating_sub(DAYS * DAY)..];
                    let mut ratios = ratios.clone();
                    ratios.add_above(highest(week), self.novelty());
                    ratios.needs(forecast?)
                }
            };
            Some((window, needs))
        });
        needs.collect()
    }

    fn novelty(&self) -> f64 {
        if self.rules.lasts {
            NOVELTY_LASTING
        } else {
            NOVELTY
        }
    }

    fn same_hours(&self, hour: usize, window: usize) -> Histogram {
        let mut needs = Histogram::default();
        let days = (1..=DAYS).filter_map(|day| hour.checked_sub(day * DAY));
        let starts = days.flat_map(|start| [start.saturating_sub(1), start, start + 1]);
        let mut top = 0.0_f64;
        for start in starts {
            let hours = start..start + window;
            let peak = highest(&self.peaks[hours.clone()]) / UNIT;
            top = top.max(peak);
            let samples = &self.samples[hours];
            add_needs(&mut needs, self.rules.lasts, samples, peak, UNIT);
        }
        needs.add_above(top, NOVELTY_OF_DAYS);
        needs
    }
}

/// Adds the needs of a window, with a weight of 1: its peak, or all its samples.
fn add_needs(needs: &mut Histogram, lasts: bool, hours: &[Vec<f64>], peak: f64, unit: f64) {
    if !lasts {
        needs.add(peak, 1.0);
        return;
    }
    for samples in hours {
        let weight = 1.0 / (samples.len() * hours.len()) as f64;
        for sample in samples {
            needs.add(sample / unit, weight);
        }
    }
}

impl Policy for ByHour {
    fn observe(&mut self, _pod: usize, at: Timestamp, usage: f64) {
        self.flat.add(&self.rules.settings, usage, at);
        let start = *self.start.get_or_insert(at.as_second());
        let hour = hour_of(start, at.as_second());
        let hours = self.peaks.len().max(hour + 1);
        self.peaks.resize(hours, 0.0);
        self.samples.resize(hours, Vec::new());
        self.peaks[hour] = self.peaks[hour].max(usage);
        self.samples[hour].push(usage);
    }

    fn oom(&mut self, at: Timestamp, request: f64) {
        self.flat.add_oom(&self.rules.settings, request, at);
    }

    fn recommend(&mut self, now: Timestamp, request: f64) -> Option<f64> {
        let settings = self.rules.settings;
        let hour = hour_of(self.start?, now.as_second());
        for hour in self.known + 1..=hour {
            self.learn(hour);
        }
        self.known = hour;
        let flat = self.flat.choose(&settings, request, now)?;
        let is_proven = self.forecasts.is_proven.get(hour) == Some(&true);
        if flat.reason == Reason::Short || !is_proven {
            return Some(flat.recommended);
        }
        let prices = Prices {
            failure: CAUTION * flat.price,
            shortage: CAUTION * settings.shortage_price,
            change: self.rules.change * flat.change_price + REFUSED * flat.price,
            lasts: self.rules.lasts,
        };
        // Usage must have fallen before a request does.
        let last = self.peaks.last().copied()?;
        let chosen = cheapest(prices, &self.needs(hour), request, last);
        Some(chosen.unwrap_or(flat.recommended))
    }

    fn raise(&mut self, now: Timestamp, _usage: f64, request: f64) -> Option<f64> {
        let settings = &self.rules.settings;
        if !self.flat.is_short(settings, request) {
            return None;
        }
        Some(self.flat.choose(settings, request, now)?.recommended)
    }
}
