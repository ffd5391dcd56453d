//! How much each of several forecasts counts: less, the larger its recent errors were, seen at
//! several speeds and multiplied.
//!
//! `weight = 1 / product over speeds of (mean error)^exponent`, less than a thousandth of the
//! largest is nothing. So a forecast must have been good lately and for long to count.

use crate::discounted::keep;

const SMALLEST: f64 = 1e-3;

/// A half-life in slots, and how much errors at that speed count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    pub(crate) half_life: f64,
    pub(crate) exponent: u32,
}

/// Errors of `N` forecasts at `S` speeds. The weight is the product to the power `sharpness`.
///
/// Forecasts lie side by side and are all computed with, there or not: so several are done at once,
/// without a branch.
#[derive(Clone, Debug)]
pub(crate) struct Trust<const N: usize, const S: usize> {
    keep: [f64; S],
    exponents: [u32; S],
    sharpness: u32,
    floor: f64,
    /// Faded sums of the errors, and of how many there were.
    sums: [[f64; N]; S],
    counts: [[f64; N]; S],
}

impl<const N: usize, const S: usize> Trust<N, S> {
    pub(crate) fn new(speeds: [Speed; S], sharpness: u32, floor: f64) -> Self {
        Self {
            keep: speeds.map(|speed| keep(speed.half_life)),
            exponents: speeds.map(|speed| speed.exponent),
            sharpness,
            floor,
            sums: [[0.0; N]; S],
            counts: [[0.0; N]; S],
        }
    }

    /// Takes in the error of each forecast that was there.
    pub(crate) fn add(&mut self, errors: [f64; N], was_there: [bool; N]) {
        for ((sums, counts), keep) in self.sums.iter_mut().zip(&mut self.counts).zip(self.keep) {
            for which in 0..N {
                let (sum, count) = (
                    keep * sums[which] + errors[which],
                    keep * counts[which] + 1.0,
                );
                sums[which] = if was_there[which] { sum } else { sums[which] };
                counts[which] = if was_there[which] {
                    count
                } else {
                    counts[which]
                };
            }
        }
    }

    /// The product of each forecast's mean errors; what follows from no error has no meaning.
    /// Divided once, since divisions are dear.
    fn products(&self) -> [f64; N] {
        let mut products = [1.0; N];
        let mut divisors = [1.0; N];
        for ((sums, counts), exponent) in self.sums.iter().zip(&self.counts).zip(self.exponents) {
            let errors: [f64; N] =
                std::array::from_fn(|which| sums[which] + self.floor * counts[which]);
            let errors = powers(errors, exponent);
            let counts = powers(*counts, exponent);
            for which in 0..N {
                products[which] *= errors[which];
                divisors[which] *= counts[which];
            }
        }
        std::array::from_fn(|which| products[which] / divisors[which])
    }

    /// How much each forecast that is there counts, in all one; none where no forecast that is
    /// there has been judged.
    pub(crate) fn weights(&self, is_there: [bool; N]) -> Option<[f64; N]> {
        let products = self.products();
        let is_judged = self.counts[0].map(|count| count > 0.0);
        let products: [f64; N] = std::array::from_fn(|which| {
            if is_there[which] && is_judged[which] {
                products[which]
            } else {
                f64::INFINITY
            }
        });
        let least = products.iter().fold(f64::INFINITY, |least, product| {
            if *product < least { *product } else { least }
        });
        if !least.is_finite() {
            return None;
        }
        let weights = powers(products.map(|product| least / product), self.sharpness);
        Some(normalised(weights))
    }
}

/// Without what is less than a thousandth of the largest (which is 1), and in all one.
pub(crate) fn normalised<const N: usize>(weights: [f64; N]) -> [f64; N] {
    let kept = weights.map(|weight| if weight < SMALLEST { 0.0 } else { weight });
    let total: f64 = kept.iter().sum();
    kept.map(|weight| weight / total)
}

/// Small whole powers. The library's goes through a loop, and this is called most of all.
fn powers<const N: usize>(values: [f64; N], exponent: u32) -> [f64; N] {
    match exponent {
        1 => values,
        2 => values.map(|value| value * value),
        3 => values.map(|value| value * value * value),
        4 => values.map(|value| (value * value) * (value * value)),
        _ => values.map(|value| value.powi(exponent as i32)),
    }
}
