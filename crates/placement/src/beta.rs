//! Beta distribution: fit by moments and cumulative distribution.

use std::f64::consts::PI;

/// Most steps of the continued fraction; parameters of 1e8 need about 1e4.
const MAX_STEPS: u32 = 100_000;

/// Beta distribution on 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beta {
    /// First parameter, positive.
    pub alpha: f64,
    /// Second parameter, positive.
    pub beta: f64,
}

impl Beta {
    /// The distribution with a mean between 0 and 1 and a standard deviation. `None` when there is
    /// none: the variance must be positive and below `mean * (1 - mean)`.
    pub fn fit(mean: f64, deviation: f64) -> Option<Self> {
        // By the second moment, as upstream: the parameters of a tiny deviation depend on it.
        let variance = (deviation * deviation + mean * mean) - mean * mean;
        let largest = mean * (1.0 - mean);
        let is_valid = 0.0 < mean && mean < 1.0 && 0.0 < variance && variance < largest;
        is_valid.then(|| {
            let sum = (largest / variance - 1.0).max(f64::MIN_POSITIVE);
            Self {
                alpha: mean * sum,
                beta: (1.0 - mean) * sum,
            }
        })
    }

    pub fn distribution(&self, x: f64) -> f64 {
        regularized_incomplete(self.alpha, self.beta, x)
    }
}

/// Probability that a load with a mean and a standard deviation, fractions of the capacity, does
/// not exceed a threshold; with the fitted distribution.
pub fn probability(mean: f64, deviation: f64, threshold: f64) -> (f64, Option<Beta>) {
    if mean <= 0.0 {
        return (1.0, None);
    }
    if deviation <= 0.0 {
        return (f64::from(u8::from(mean <= threshold)), None);
    }
    let fit = Beta::fit(mean, deviation);
    let found = fit.map_or(0.0, |fit| fit.distribution(threshold));
    let is_valid = (0.0..=1.0).contains(&found);
    (if is_valid { found } else { 0.0 }, fit)
}

/// The regularised incomplete beta function. Not a number when `a` or `b` is not positive or `x`
/// is not in 0 to 1. The absolute error is below 1e-10.
pub fn regularized_incomplete(a: f64, b: f64, x: f64) -> f64 {
    if !(a > 0.0 && b > 0.0 && (0.0..=1.0).contains(&x)) {
        return f64::NAN;
    }
    if x <= 0.0 {
        0.0
    } else if x >= 1.0 {
        1.0
    } else if x > (a + 1.0) / (a + b + 2.0) {
        (1.0 - lower(b, a, 1.0 - x, x)).clamp(0.0, 1.0)
    } else {
        lower(a, b, x, 1.0 - x).clamp(0.0, 1.0)
    }
}

/// The function by its continued fraction, for `x` up to about the mean; `y` is `1 - x`.
fn lower(a: f64, b: f64, x: f64, y: f64) -> f64 {
    power_term(a, b, x, y) / a * continued_fraction(a, b, x)
}

/// `x^a y^b / B(a, b)`, without the cancellation of large logarithms.
fn power_term(a: f64, b: f64, x: f64, y: f64) -> f64 {
    let (mean, rest) = (a / (a + b), b / (a + b));
    let distance = if x < y { x - mean } else { rest - y };
    let (above, below) = (distance / mean, -distance / rest);
    let exponent = if above.abs() < 0.5 && below.abs() < 0.5 {
        a * log_minus_linear(above) + b * log_minus_linear(below)
    } else {
        a * (x / mean).ln() + b * (y / rest).ln()
    };
    let correction = stirling_error(a + b) - stirling_error(a) - stirling_error(b);
    (a * rest / (2.0 * PI)).sqrt() * (exponent + correction).exp()
}

/// `ln(1 + e) - e`, for an `e` between -0.5 and 0.5.
fn log_minus_linear(e: f64) -> f64 {
    if e.abs() > 0.1 {
        return e.ln_1p() - e;
    }
    let mut power = -e;
    let mut sum = 0.0;
    for divisor in 2..=20 {
        power *= -e;
        sum -= power / f64::from(divisor);
    }
    sum
}

/// Logarithm of the gamma function minus Stirling's formula, for a positive `z`.
fn stirling_error(z: f64) -> f64 {
    let main = |z: f64| (z - 0.5) * z.ln() - z + 0.5 * (2.0 * PI).ln();
    if z >= 15.0 {
        let square = z * z;
        return (1.0 / 12.0
            - (1.0 / 360.0
                - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / square) / square) / square)
                / square)
            / z;
    }
    let (mut raised, mut product) = (z, 1.0);
    while raised < 15.0 {
        product *= raised;
        raised += 1.0;
    }
    main(raised) + stirling_error(raised) - product.ln() - main(z)
}

/// Lentz's algorithm. Source: DLMF 8.17.22.
fn continued_fraction(a: f64, b: f64, x: f64) -> f64 {
    let not_zero = |value: f64| {
        if value.abs() < f64::MIN_POSITIVE {
            f64::MIN_POSITIVE
        } else {
            value
        }
    };
    let mut numerator = 1.0;
    let mut denominator = 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = denominator;
    for step in 1..=MAX_STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for coefficient in [even, odd] {
            denominator = 1.0 / not_zero(1.0 + coefficient * denominator);
            numerator = not_zero(1.0 + coefficient / numerator);
            change = numerator * denominator;
            fraction *= change;
        }
        // Above the spacing of doubles near 1, which the last digits need not come closer to.
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values_are_met() {
        for (a, b, x, expected) in [
            (1.0, 1.0, 0.3, 0.3),
            (1.0, 2.0, 0.5, 0.75),
            (3.0, 1.0, 0.5, 0.125),
            (2.0, 5.0, 0.3, 0.579_825),
            (0.5, 0.5, 0.25, 1.0 / 3.0),
            (2.0, 2.0, 0.25, 0.156_25),
            (2.0, 2.0, 0.0, 0.0),
            (2.0, 2.0, 1.0, 1.0),
            (0.5, 0.5, 0.5, 0.5),
        ] {
            let found = regularized_incomplete(a, b, x);
            assert!((found - expected).abs() < 1e-12, "{a} {b} {x}: {found}");
        }
        for (a, b, x) in [(0.0, 1.0, 0.5), (1.0, -1.0, 0.5), (1.0, 1.0, 1.1)] {
            assert!(regularized_incomplete(a, b, x).is_nan());
        }
    }

    proptest! {
        #[test]
        fn the_distribution_is_symmetric_and_rises(
            mean in 0.001..0.999_f64,
            part in 0.000_01..0.99_f64,
            x in 0.0..1.0_f64,
            step in 0.0..0.1_f64,
        ) {
            let deviation = (part * mean * (1.0 - mean)).sqrt();
            let fit = Beta::fit(mean, deviation).expect("a valid variance");
            let mirrored = Beta { alpha: fit.beta, beta: fit.alpha };
            let found = fit.distribution(x);
            prop_assert!((0.0..=1.0).contains(&found));
            prop_assert!((found + mirrored.distribution(1.0 - x) - 1.0).abs() < 1e-9);
            prop_assert!(fit.distribution((x + step).min(1.0)) >= found - 1e-12);
        }
    }
}
