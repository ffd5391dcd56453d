//! `2^x`: reduces x to an integer and a remainder of at most one half, and approximates e to the
//! remainder by a rational function.
//!
//! Source: FreeBSD `e_exp.c`; the reduction for base two is Go's `math.Exp2`.

use super::{LN2_HIGH, LN2_LOW, times_power_of_two};

/// Remez coefficients of `r * (e^r + 1) / (e^r - 1) = 2 + P1 r^2 + ...`.
const P: [f64; 5] = [
    1.666_666_666_666_666_6e-1,
    -2.777_777_777_701_559_3e-3,
    6.613_756_321_437_934e-5,
    -1.653_390_220_546_525_2e-6,
    4.138_136_797_057_238_5e-8,
];

/// Two to the power of `x`; zero below the smallest double, infinity above the largest.
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
    let c = r - t * (P[0] + t * (P[1] + t * (P[2] + t * (P[3] + t * P[4]))));
    1.0 - ((low - (r * c) / (2.0 - c)) - high)
}

#[cfg(test)]
mod tests {
    use super::exp2;

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
}
