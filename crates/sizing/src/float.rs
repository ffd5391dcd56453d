//! Elementary functions with bit-identical results on all platforms.
//!
//! Weights and bucket boundaries are compared across restarts, machines and with upstream's
//! checkpoints, where the last bit of `exp2`, `ln` and a power matters. These are the FreeBSD msun
//! algorithms in the variant of Go's portable `math` package (`Exp2`, `Log`, `Pow`).

/// The high part of ln 2: multiples by small integers are exact.
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

const EXPONENT_BITS: u64 = 0x7ff << 52;

/// `2^exponent`, exact; zero and infinity beyond the range of doubles.
pub(crate) fn power_of_two(exponent: i64) -> f64 {
    times_power_of_two(1.0, exponent)
}

/// `value * 2^exponent` for a normal `value`, rounded once.
fn times_power_of_two(value: f64, exponent: i64) -> f64 {
    let exact = |exponent: i64| f64::from_bits(((exponent + 1023) as u64) << 52);
    match exponent {
        -1022..=1023 => value * exact(exponent),
        // Two steps, of which the first is exact, so that a subnormal result is rounded only once.
        -1600..-1022 => value * exact(exponent + 600) * exact(-600),
        1024..1100 => value * exact(1023) * exact(exponent - 1023),
        i64::MIN..-1600 => value * 0.0,
        1100.. => value * f64::INFINITY,
    }
}

/// Splits a positive normal number into a fraction in 0.5..1 and a power of two.
fn split(value: f64) -> (f64, i64) {
    let bits = value.to_bits();
    let exponent = ((bits & EXPONENT_BITS) >> 52) as i64 - 1022;
    (
        f64::from_bits((bits & !EXPONENT_BITS) | (1022 << 52)),
        exponent,
    )
}

/// Remez coefficients of `exp2`: `r * (e^r + 1) / (e^r - 1) = 2 + P1 r^2 + ...`.
const EXP: [f64; 5] = [
    1.666_666_666_666_666_6e-1,
    -2.777_777_777_701_559_3e-3,
    6.613_756_321_437_934e-5,
    -1.653_390_220_546_525_2e-6,
    4.138_136_797_057_238_5e-8,
];

/// Two to the power of `x`; zero below the smallest double, infinity above the largest. Reduces x to an
/// integer and a remainder of at most one half, and approximates e to the remainder by a rational
/// function: FreeBSD `e_exp.c`, with the reduction of Go's `math.Exp2`.
pub(crate) fn exp2(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > 1.023_999_999_999_999_9e3 {
        return f64::INFINITY;
    }
    if x < -1.074e3 {
        return 0.0;
    }
    let whole = if x > 0.0 {
        (x + 0.5).trunc()
    } else {
        (x - 0.5).trunc()
    };
    let rest = x - whole;
    times_power_of_two(
        exp_of_difference(rest * LN2_HIGH, -rest * LN2_LOW),
        whole as i64,
    )
}

/// `e^(high - low)` for a difference of at most half of ln 2.
fn exp_of_difference(high: f64, low: f64) -> f64 {
    let r = high - low;
    let t = r * r;
    let c = r - t * (EXP[0] + t * (EXP[1] + t * (EXP[2] + t * (EXP[3] + t * EXP[4]))));
    1.0 - ((low - (r * c) / (2.0 - c)) - high)
}

/// Remez coefficients of `ln(1+f)` in even powers of `s = f / (2+f)`.
const LN: [f64; 7] = [
    6.666_666_666_666_735e-1,
    3.999_999_999_940_942e-1,
    2.857_142_874_366_239e-1,
    2.222_219_843_214_978_4e-1,
    1.818_357_216_161_805e-1,
    1.531_383_769_920_937_3e-1,
    1.479_819_860_511_658_6e-1,
];

/// The natural logarithm of a number of at least the smallest normal double; `f64::ln` for other
/// numbers. Reduces to 1+f between the square roots of a half and of two, and approximates ln(1+f) by
/// a polynomial: FreeBSD `e_log.c`, in the order of operations of Go's `math.Log`.
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
    let odd = s2 * (LN[0] + s4 * (LN[2] + s4 * (LN[4] + s4 * LN[6])));
    let even = s4 * (LN[1] + s4 * (LN[3] + s4 * LN[5]));
    let half_square = 0.5 * f * f;
    k * LN2_HIGH - ((half_square - (s * (half_square + (odd + even)) + k * LN2_LOW)) - f)
}

/// `base` to the power of `exponent`, for a base of at least the smallest normal double or
/// infinity: Go's `math.Pow` for integer exponents, by repeated squaring of the fraction with a separate
/// exponent.
pub(crate) fn power(base: f64, exponent: i32) -> f64 {
    match exponent {
        0 => return 1.0,
        1 => return base,
        _ if base.is_infinite() => return if exponent < 0 { 0.0 } else { base },
        _ => {}
    }
    let (mut square, mut square_exponent) = split(base);
    let (mut result, mut result_exponent) = (1.0, 0);
    let mut bits = exponent.unsigned_abs();
    // Beyond this the result is zero or infinite.
    while bits != 0 && square_exponent.abs() <= 1 << 12 {
        if bits & 1 == 1 {
            result *= square;
            result_exponent += square_exponent;
        }
        square *= square;
        square_exponent *= 2;
        if square < 0.5 {
            square += square;
            square_exponent -= 1;
        }
        bits >>= 1;
    }
    if bits != 0 {
        result_exponent += square_exponent;
    }
    if exponent < 0 {
        return times_power_of_two(1.0 / result, -result_exponent);
    }
    times_power_of_two(result, result_exponent)
}

#[cfg(test)]
mod tests {
    use super::{exp2, ln, power};

    #[test]
    fn whole_powers_are_exact() {
        for exponent in -1022_i32..=1023 {
            assert_eq!(
                exp2(f64::from(exponent)).to_bits(),
                ((exponent + 1023) as u64) << 52,
                "2^{exponent}"
            );
        }
    }

    #[test]
    fn the_ends_of_the_range_are_zero_and_infinity() {
        assert_eq!(exp2(f64::NEG_INFINITY).to_bits(), 0.0_f64.to_bits());
        assert_eq!(exp2(-2000.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(exp2(-1074.0).to_bits(), f64::from_bits(1).to_bits());
        assert_eq!(exp2(1024.0).to_bits(), f64::INFINITY.to_bits());
        assert!(exp2(f64::NAN).is_nan());
    }

    #[test]
    fn it_is_within_one_unit_in_the_last_place() {
        for step in 1..10_000_i32 {
            let x = f64::from(step).powi(3) * 1e-4;
            let difference = (ln(x) - x.ln()).abs();
            assert!(difference <= f64::EPSILON * x.ln().abs(), "ln {x}");
        }
    }

    #[test]
    fn small_powers_are_close_to_plain_products() {
        assert_eq!(power(1.5, 2).to_bits(), 2.25_f64.to_bits());
        assert_eq!(power(2.0, -2).to_bits(), 0.25_f64.to_bits());
        assert!((power(1.05, 10) - 1.628_894_626_777_441_6).abs() < 1e-14);
    }

    #[test]
    fn powers_beyond_the_range_are_zero_and_infinity() {
        assert_eq!(power(10.0, 400).to_bits(), f64::INFINITY.to_bits());
        assert_eq!(power(10.0, -400).to_bits(), 0.0_f64.to_bits());
        assert_eq!(power(f64::INFINITY, -2).to_bits(), 0.0_f64.to_bits());
        assert_eq!(power(1e300, i32::MAX).to_bits(), f64::INFINITY.to_bits());
    }
}
