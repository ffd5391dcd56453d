//! Crane's two estimators of the next period: the largest value at each position, or the last
//! period without weak frequencies.
//!
//! Source: gocrane/crane `pkg/prediction/dsp/estimators.go`. As there, the mirror image of a low
//! frequency counts as a high one, so that a slow and weak wave loses half of its height.

use super::spectrum::{Bin, magnitude, real_parts, spectrum};

/// Replacement for values that are not positive.
const SMALLEST: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Estimator {
    /// The largest value at each position of the period.
    MaxValue {
        /// Share added as safety margin.
        margin: f64,
    },
    /// The last period without its weak frequencies.
    Fft(Filter),
}

/// Selection of the frequencies to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter {
    /// Share added as safety margin (`marginFraction`).
    pub margin: f64,
    /// Weak frequencies above this are removed, in Hz (`highFrequencyThreshold`).
    pub high_frequency_hz: f64,
    /// Amplitude from which a frequency is kept, in half the height of a wave and units of the
    /// metric (`lowAmplitudeThreshold`).
    pub low_amplitude: f64,
    /// Minimum number of the strongest frequencies to keep (`minNumOfSpectrumItems`).
    pub min_bins: usize,
    /// Maximum number of frequencies to keep (`maxNumOfSpectrumItems`).
    pub max_bins: usize,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            margin: 0.0,
            high_frequency_hz: 1.0 / 3600.0,
            low_amplitude: 1.0,
            min_bins: 3,
            max_bins: 100,
        }
    }
}

impl Estimator {
    pub fn defaults() -> Vec<Self> {
        let margins = [0.01, 0.1, 0.15, 0.2];
        let of = |min_bins, low_amplitude| {
            margins.map(|margin| {
                Self::Fft(Filter {
                    margin,
                    low_amplitude,
                    min_bins,
                    ..Filter::default()
                })
            })
        };
        [of(3, 1.0), of(50, 0.05)].concat()
    }
}

/// Whole observed periods.
pub struct Periods<'a> {
    values: &'a [f64],
    per_period: usize,
    step_seconds: u32,
    bins: Vec<Bin>,
}

impl<'a> Periods<'a> {
    /// Expects a multiple of `per_period` values.
    pub fn new(values: &'a [f64], per_period: usize, step_seconds: u32) -> Self {
        Self {
            values,
            per_period,
            step_seconds,
            bins: spectrum(values),
        }
    }

    pub fn next(&self, estimator: &Estimator) -> Vec<f64> {
        match estimator {
            Estimator::MaxValue { margin } => (0..self.per_period)
                .map(|position| {
                    let values = self.values.iter().skip(position).step_by(self.per_period);
                    values.copied().fold(f64::MIN, f64::max) * (1.0 + margin)
                })
                .collect(),
            Estimator::Fft(filter) => {
                let filtered = self.filtered(filter);
                let last = &filtered[filtered.len().saturating_sub(self.per_period)..];
                let positive = |value: f64| if value <= 0.0 { SMALLEST } else { value };
                let with_margin = |value: &f64| positive(*value) * (1.0 + filter.margin);
                last.iter().map(with_margin).collect()
            }
        }
    }

    fn filtered(&self, filter: &Filter) -> Vec<f64> {
        let count = self.bins.len();
        let amplitudes = self.bins.iter().map(|bin| magnitude(*bin) / count as f64);
        let amplitudes: Vec<f64> = amplitudes.collect();
        let weakest = filter.weakest_kept(amplitudes.get(1..count / 2).unwrap_or_default());
        let rate = 1.0 / f64::from(self.step_seconds);
        let goes = |(index, amplitude): (usize, &f64)| {
            *amplitude < weakest && index as f64 * rate / count as f64 > filter.high_frequency_hz
        };
        let kept = self.bins.iter().zip(amplitudes.iter().enumerate());
        let kept: Vec<Bin> = kept
            .map(|(bin, at)| if goes(at) { Bin::new(0.0, 0.0) } else { *bin })
            .collect();
        real_parts(&kept)
    }
}

impl Filter {
    /// The smallest amplitude that is kept whatever its frequency.
    fn weakest_kept(&self, amplitudes: &[f64]) -> f64 {
        let mut sorted = amplitudes.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let ranked = |rank: usize| sorted.get(rank.saturating_sub(1)).copied();
        let most = ranked(self.max_bins).or(sorted.last().copied());
        let most = most.unwrap_or_default();
        let least = ranked(self.min_bins).unwrap_or(f64::INFINITY);
        most.max(self.low_amplitude).min(least)
    }
}
