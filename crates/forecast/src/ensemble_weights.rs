//! Weights of several forecasts: the smaller its recent errors, the larger a forecast's weight.
//! Errors are averaged at several decay rates and multiplied.
//!
//! `weight = 1 / product over rates of (mean error)^exponent`. Weights below a thousandth of the
//! largest become zero. So a forecast needs small errors both recently and over a long time.

use crate::ewma::decay_factor;

const SMALLEST: f64 = 1e-3;

/// A half-life in slots, and the exponent of the errors at that rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decay {
    pub(crate) half_life: f64,
    pub(crate) exponent: u32,
}

/// Errors of `N` forecasts at `S` decay rates. The weight is the product to the power `sharpness`.
///
/// All forecasts are computed, whether available or not, so that the loops vectorise without
/// branches.
#[derive(Clone, Debug)]
pub(crate) struct EnsembleWeights<const N: usize, const S: usize> {
    decay: [f64; S],
    exponents: [u32; S],
    sharpness: u32,
    floor: f64,
    /// Decayed sums of the errors, and of their number.
    sums: [[f64; N]; S],
    counts: [[f64; N]; S],
}

impl<const N: usize, const S: usize> EnsembleWeights<N, S> {
    pub(crate) fn new(decays: [Decay; S], sharpness: u32, floor: f64) -> Self {
        Self {
            decay: decays.map(|decay| decay_factor(decay.half_life)),
            exponents: decays.map(|decay| decay.exponent),
            sharpness,
            floor,
            sums: [[0.0; N]; S],
            counts: [[0.0; N]; S],
        }
    }

    pub(crate) fn add(&mut self, errors: [f64; N], was_available: [bool; N]) {
        for ((sums, counts), decay) in self.sums.iter_mut().zip(&mut self.counts).zip(self.decay) {
            for which in 0..N {
                let (sum, count) = (sums[which], counts[which]);
                let (new_sum, new_count) = (decay * sum + errors[which], decay * count + 1.0);
                sums[which] = if was_available[which] { new_sum } else { sum };
                counts[which] = if was_available[which] {
                    new_count
                } else {
                    count
                };
            }
        }
    }

    /// The product of each forecast's mean errors; meaningless for forecasts without errors.
    /// Divides once, since divisions are slow.
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

    /// Weights of the available forecasts with a sum of 1, or `None` if none of them has errors
    /// yet.
    pub(crate) fn weights(&self, is_available: [bool; N]) -> Option<[f64; N]> {
        let products = self.products();
        let is_evaluated = self.counts[0].map(|count| count > 0.0);
        let products: [f64; N] = std::array::from_fn(|which| {
            if is_available[which] && is_evaluated[which] {
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

/// Clears weights below a thousandth of the largest (which is 1) and scales the sum to 1.
pub(crate) fn normalised<const N: usize>(weights: [f64; N]) -> [f64; N] {
    let kept = weights.map(|weight| if weight < SMALLEST { 0.0 } else { weight });
    let total: f64 = kept.iter().sum();
    kept.map(|weight| weight / total)
}

/// Small integer powers. The library's version loops, and this is the hottest function.
fn powers<const N: usize>(values: [f64; N], exponent: u32) -> [f64; N] {
    match exponent {
        1 => values,
        2 => values.map(|value| value * value),
        3 => values.map(|value| value * value * value),
        4 => values.map(|value| (value * value) * (value * value)),
        _ => values.map(|value| value.powi(exponent as i32)),
    }
}
