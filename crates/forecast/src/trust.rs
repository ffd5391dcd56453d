//! How much each of several forecasts counts: less, the larger its recent errors were, seen at several speeds and multiplied.
//!
//! `weight = 1 / product over speeds of (mean error)^exponent`, less than a thousandth of the largest is nothing. So a forecast must have been
//! good lately and for long to count.

use crate::discounted::{Discounted, keep};

const SMALLEST: f64 = 1e-3;

/// A half-life in slots, and how much errors at that speed count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    pub(crate) half_life: f64,
    pub(crate) exponent: u32,
}

/// Errors of `N` forecasts at `S` speeds. The weight is the product to the power `sharpness`.
#[derive(Clone, Debug)]
pub(crate) struct Trust<const N: usize, const S: usize> {
    keep: [f64; S],
    exponents: [u32; S],
    sharpness: u32,
    floor: f64,
    errors: [[Discounted; S]; N],
}

impl<const N: usize, const S: usize> Trust<N, S> {
    pub(crate) fn new(speeds: [Speed; S], sharpness: u32, floor: f64) -> Self {
        Self {
            keep: speeds.map(|speed| keep(speed.half_life)),
            exponents: speeds.map(|speed| speed.exponent),
            sharpness,
            floor,
            errors: [[Discounted::default(); S]; N],
        }
    }

    /// Takes in the error of one forecast.
    pub(crate) fn add(&mut self, which: usize, error: f64) {
        for (mean, keep) in self.errors[which].iter_mut().zip(self.keep) {
            mean.add(keep, error);
        }
    }

    /// The product of the mean errors; none where there is no error yet. Divided once, since divisions are dear.
    fn product(&self, which: usize) -> Option<f64> {
        let (mut sums, mut counts) = (1.0, 1.0);
        for (mean, exponent) in self.errors[which].iter().zip(self.exponents) {
            let (sum, count) = mean.parts()?;
            sums *= power(sum + self.floor * count, exponent);
            counts *= power(count, exponent);
        }
        Some(sums / counts)
    }

    /// How much each forecast that is there counts, in all one; none where no forecast that is there has been judged.
    pub(crate) fn weights(&self, is_there: [bool; N]) -> Option<[f64; N]> {
        let mut products = [f64::INFINITY; N];
        let mut least = f64::INFINITY;
        for (which, product) in products.iter_mut().enumerate().filter(|(which, _)| is_there[*which]) {
            if let Some(judged) = self.product(which) {
                *product = judged;
                least = least.min(judged);
            }
        }
        if !least.is_finite() {
            return None;
        }
        let weights = products.map(|product| power(least / product, self.sharpness));
        Some(normalised(weights))
    }
}

/// Without what is less than a thousandth of the largest (which is 1), and in all one.
pub(crate) fn normalised<const N: usize>(weights: [f64; N]) -> [f64; N] {
    let kept = weights.map(|weight| if weight < SMALLEST { 0.0 } else { weight });
    let total: f64 = kept.iter().sum();
    kept.map(|weight| weight / total)
}

/// A small whole power. The library's goes through a loop, and this is called most of all.
fn power(value: f64, exponent: u32) -> f64 {
    match exponent {
        1 => value,
        2 => value * value,
        3 => value * value * value,
        4 => (value * value) * (value * value),
        _ => value.powi(exponent as i32),
    }
}
