//! Natural logarithm: reduces to 1+f between the square roots of a half and of two, and
//! approximates ln(1+f) by a polynomial.
//!
//! Source: FreeBSD `e_log.c`, in the order of operations of Go's `math.Log`.

use super::{LN2_HIGH, LN2_LOW, split};

/// Remez coefficients of `ln(1+f)` in even powers of `s = f / (2+f)`.
const L: [f64; 7] = [
    6.666_666_666_666_735e-1,
    3.999_999_999_940_942e-1,
    2.857_142_874_366_239e-1,
    2.222_219_843_214_978_4e-1,
    1.818_357_216_161_805e-1,
    1.531_383_769_920_937_3e-1,
    1.479_819_860_511_658_6e-1,
];

/// The natural logarithm of a number of at least the smallest normal double; `f64::ln` for other
/// numbers.
pub(crate) fn ln(x: f64) -> f64 {
    if x < f64::MIN_POSITIVE || !x.is_finite() {
        return x.ln();
    }
    let (mut fraction, mut exponent) = split(x);
    if fraction < std::f64::consts::FRAC_1_SQRT_2 {
        fraction *= 2.0;
        exponent -= 1;
    }
    let f = fraction - 1.0;
    let k = exponent as f64;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let odd = s2 * (L[0] + s4 * (L[2] + s4 * (L[4] + s4 * L[6])));
    let even = s4 * (L[1] + s4 * (L[3] + s4 * L[5]));
    let half_square = 0.5 * f * f;
    k * LN2_HIGH - ((half_square - (s * (half_square + (odd + even)) + k * LN2_LOW)) - f)
}

#[cfg(test)]
mod tests {
    use super::ln;

    #[test]
    fn it_is_within_one_unit_in_the_last_place() {
        for step in 1..10_000_i32 {
            let x = f64::from(step).powi(3) * 1e-4;
            let difference = (ln(x) - x.ln()).abs();
            assert!(difference <= f64::EPSILON * x.ln().abs(), "ln {x}");
        }
    }
}
