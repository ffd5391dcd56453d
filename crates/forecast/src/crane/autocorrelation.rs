//! Circular autocorrelation of a series: 1 is identical, 0 unrelated.
//!
//! `r = inverse transform of |transform of z|^2 / n`, with `z` the values less their mean, over
//! their standard deviation. Source: gocrane/crane `pkg/prediction/dsp/signal.go`.

use super::fourier::{Bin, Fourier};

/// One value per lag in steps, from 0. NaN if all values are equal.
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
