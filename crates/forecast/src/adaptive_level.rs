//! At which share of past errors a quantile is read, so that it is missed as often as it should be.
//!
//! `tail = (1 - q) exp(-l)`, and after each judged slot
//! `l <- keep l + step (miss - (1 - q)) / (1 - q)`: a horizon without a miss widens the tail by
//! half, a horizon with twice the misses narrows it by a third. It steers by shares, not by sizes,
//! so it works alike however large errors are. What was learnt is halved in two horizons: misses
//! come to be known a horizon late, and a sum of all would swing. After Gibbs and Candès (2021),
//! Adaptive conformal inference under distribution shift.

use crate::discounted::keep;

/// By how much the logarithm of a tail falls within one horizon without a miss.
const STEP: f64 = 0.4;
/// Horizons.
const HALF_LIFE: f64 = 2.0;
/// A tail is at least a twentieth of what is named. It is at most 3.2 times that: what is forgotten
/// bounds it.
const NARROWEST: f64 = 3.0;
/// So many quantiles are steered, from the lowest. The highest is missed so seldom that there is
/// nothing to steer by.
const STEERED: usize = 2;

/// The logarithm of each quantile's tail, below zero where it is wider than named.
#[derive(Clone, Debug)]
pub(crate) struct AdaptiveLevel<const Q: usize> {
    named: [f64; Q],
    step: f64,
    keep: f64,
    narrowed: [f64; Q],
}

impl<const Q: usize> AdaptiveLevel<Q> {
    /// For rising shares, with so many judged slots in one horizon.
    pub(crate) fn new(named: [f64; Q], horizon: f64) -> Self {
        Self {
            named,
            step: STEP / horizon,
            keep: keep(HALF_LIFE * horizon),
            narrowed: [0.0; Q],
        }
    }

    /// Takes in whether a slot was above its quantiles. Gives the rising shares to read instead of
    /// those named.
    pub(crate) fn judge(&mut self, missed: [bool; Q]) -> [f64; Q] {
        let quantiles = self
            .narrowed
            .iter_mut()
            .zip(self.named)
            .zip(missed)
            .take(STEERED);
        for ((narrowed, share), missed) in quantiles {
            let tail = 1.0 - share;
            let too_often = f64::from(u8::from(missed)) / tail - 1.0;
            *narrowed = (self.keep * *narrowed + self.step * too_often).min(NARROWEST);
        }
        let mut least = 0.0_f64;
        std::array::from_fn(|which| {
            least = least.max(1.0 - (1.0 - self.named[which]) * (-self.narrowed[which]).exp());
            least
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMED: [f64; 3] = [0.90, 0.95, 0.99];

    fn check(slots: usize, missed: [bool; 3], expected: [f64; 3]) {
        let mut level = AdaptiveLevel::new(NAMED, 48.0);
        let found = (0..slots).fold(NAMED, |_, _| level.judge(missed));
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
        check(0, [false; 3], NAMED);
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
