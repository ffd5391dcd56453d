//! Adaptive conformal level: the share of past errors at which a quantile is read, adapted until
//! the quantile is exceeded as often as it should be.
//!
//! `tail = (1 - q) exp(-l)`, and after each evaluated slot
//! `l <- decay l + step (miss - (1 - q)) / (1 - q)`. A horizon without a miss widens the tail by
//! half, a horizon with twice the misses narrows it by a third. The rule uses shares instead of
//! sizes, so it does not depend on the scale of the errors. Its memory has a half-life of two
//! horizons: misses become known a horizon late, and an undecayed sum would oscillate. After Gibbs
//! and Candès (2021), Adaptive conformal inference under distribution shift.

use crate::ewma::decay_factor;

/// Decrease of a tail's logarithm within one horizon without a miss.
const STEP: f64 = 0.4;
const HALF_LIFE: f64 = 2.0;
/// Upper limit of `l`: a tail is at least a twentieth of its nominal size. The decay limits it to
/// at most 3.2 times that size.
const NARROWEST: f64 = 3.0;
/// Number of adapted quantiles, from the lowest. The highest is missed too rarely to adapt it.
const STEERED: usize = 2;

/// The logarithm of each quantile's tail, negative if it is wider than nominal.
#[derive(Clone, Debug)]
pub(crate) struct AdaptiveLevel<const Q: usize> {
    nominal: [f64; Q],
    step: f64,
    decay: f64,
    narrowed: [f64; Q],
}

impl<const Q: usize> AdaptiveLevel<Q> {
    /// Expects rising shares. `horizon` is the number of evaluated slots in one horizon.
    pub(crate) fn new(nominal: [f64; Q], horizon: f64) -> Self {
        Self {
            nominal,
            step: STEP / horizon,
            decay: decay_factor(HALF_LIFE * horizon),
            narrowed: [0.0; Q],
        }
    }

    /// Records which quantiles a slot exceeded. Returns the rising shares to read instead of the
    /// nominal ones.
    pub(crate) fn evaluate(&mut self, missed: [bool; Q]) -> [f64; Q] {
        let quantiles = self.narrowed.iter_mut().zip(self.nominal).zip(missed);
        for ((narrowed, share), missed) in quantiles.take(STEERED) {
            let tail = 1.0 - share;
            let too_often = f64::from(u8::from(missed)) / tail - 1.0;
            *narrowed = (self.decay * *narrowed + self.step * too_often).min(NARROWEST);
        }
        let mut least = 0.0_f64;
        std::array::from_fn(|which| {
            least = least.max(1.0 - (1.0 - self.nominal[which]) * (-self.narrowed[which]).exp());
            least
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOMINAL: [f64; 3] = [0.90, 0.95, 0.99];

    fn check(slots: usize, missed: [bool; 3], expected: [f64; 3]) {
        let mut level = AdaptiveLevel::new(NOMINAL, 48.0);
        let found = (0..slots).fold(NOMINAL, |_, _| level.evaluate(missed));
        assert!(
            found
                .iter()
                .zip(expected)
                .all(|(found, expected)| (found - expected).abs() < 5e-4),
            "{found:?}"
        );
    }

    #[test]
    fn shares_fall_while_nothing_is_missed_and_rise_with_misses() {
        check(0, [false; 3], NOMINAL);
        check(48, [false; 3], [0.8596, 0.9298, 0.99]);
        check(4800, [false; 3], [0.6815, 0.8408, 0.99]);
        check(10, [true, false, false], [0.9516, 0.9516, 0.99]);
        check(10, [true; 3], [0.9516, 0.9892, 0.99]);
    }

    #[test]
    fn shares_stay_in_order_and_below_one() {
        check(20, [true, false, false], [0.9754, 0.9754, 0.99]);
        check(500, [true; 3], [0.9950, 0.9975, 0.9975]);
    }
}
