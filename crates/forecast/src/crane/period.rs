//! Period of a series, as Crane finds it.
//!
//! A frequency is a candidate if it is stronger than noise: than the second strongest of the maxima
//! of a hundred shuffles. A candidate is accepted if the autocorrelation rises towards it and falls
//! after it (least-squares slopes over up to four hours, or half the period). The accepted
//! candidate with the largest autocorrelation is the period. Source: gocrane/crane
//! `pkg/prediction/dsp/period.go`. Crane seeds its shuffles from the clock, so its result varies;
//! here the same series always has the same result.

use super::spectrum::{Bin, Fourier};

const SHUFFLES: usize = 100;
const THRESHOLD_RANK: usize = 98;
const SLOPE_SECONDS: usize = 4 * 3600;

/// The period in seconds, or `None` if the values do not repeat.
pub fn find_period(values: &[f64], step_seconds: u32) -> Option<u64> {
    let threshold = noise_threshold(values);
    let count = values.len();
    let bins = Fourier::new(count).forward(values);
    let candidates = bins.iter().enumerate().take(count / 2).skip(2);
    let strong = candidates.filter(|(_, bin)| bin.norm() > threshold);
    let mut lags: Vec<usize> = strong.map(|(index, _)| count / index).collect();
    lags.dedup();
    let correlation = autocorrelation(values);
    let width = SLOPE_SECONDS / step_seconds.max(1) as usize;
    let mut best: Option<(usize, f64)> = None;
    for lag in lags {
        let Some(height) = correlation.get(lag).copied() else {
            continue;
        };
        if height > best.map_or(0.0, |(_, height)| height)
            && is_peak(&correlation, lag, width.min(lag / 2))
        {
            best = Some((lag, height));
        }
    }
    // Computed through the rate, as in the source: 109 steps of 300 s are 32,699 s.
    let rate = 1.0 / f64::from(step_seconds);
    best.map(|(lag, _)| (lag as f64 / rate) as u64)
}

/// Circular autocorrelation, one value per lag in steps, from 0: 1 is identical, 0 unrelated, NaN if
/// all values are equal.
///
/// `r = inverse transform of |transform of z|^2 / n`, with `z` the values less their mean, over
/// their standard deviation. Source: `pkg/prediction/dsp/signal.go`.
pub fn autocorrelation(values: &[f64]) -> Vec<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    let deviation = (squares.sum::<f64>() / count).sqrt();
    let standard = values.iter().map(|value| (value - mean) / deviation);
    let standard: Vec<f64> = standard.collect();
    let mut fourier = Fourier::new(values.len());
    let bins = fourier.forward(&standard).into_iter();
    let power = bins.map(|bin| Bin::new(bin.norm_sqr() / count, 0.0));
    fourier.back(&power.collect::<Vec<_>>())
}

fn noise_threshold(values: &[f64]) -> f64 {
    let mut shuffled = values.to_vec();
    let mut fourier = Fourier::new(values.len());
    let mut random = Random(0x5DEE_CE66);
    let mut strongest: Vec<f64> = (0..SHUFFLES)
        .map(|_| {
            random.shuffle(&mut shuffled);
            let bins = fourier.forward(&shuffled);
            let bins = bins.iter().take(values.len() / 2).skip(1);
            bins.map(Bin::norm_sqr).fold(0.0, f64::max).sqrt()
        })
        .collect();
    strongest.sort_by(f64::total_cmp);
    strongest.get(THRESHOLD_RANK).copied().unwrap_or_default()
}

fn is_peak(correlation: &[f64], lag: usize, width: usize) -> bool {
    let end = correlation.len().min(lag + width + 1);
    let before = correlation.get(lag - width..=lag).unwrap_or_default();
    let after = correlation.get(lag..end).unwrap_or_default();
    slope(before) > 0.0 && slope(after) < 0.0
}

/// Least-squares slope; NaN for fewer than two values.
fn slope(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count;
    let (mut with, mut own) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let from_middle = index as f64 - middle;
        with += from_middle * (value - mean);
        own += from_middle * from_middle;
    }
    with / own
}

/// The `SplitMix64` generator: deterministic, sufficient for shuffling.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn shuffle(&mut self, values: &mut [f64]) {
        for last in (1..values.len()).rev() {
            values.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
    }
}
