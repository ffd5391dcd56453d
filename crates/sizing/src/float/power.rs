//! Integer powers of positive numbers, by repeated squaring of the fraction with a separate
//! exponent.
//!
//! Source: Go's `math.Pow` for integer exponents.

use super::{split, times_power_of_two};

/// `base` to the power of `exponent`, for a base of at least the smallest normal double or
/// infinity.
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
    use super::power;

    #[test]
    fn small_powers_are_close_to_plain_products() {
        assert_eq!(power(1.5, 2).to_bits(), 2.25_f64.to_bits());
        assert_eq!(power(2.0, -2).to_bits(), 0.25_f64.to_bits());
        assert!((power(1.05, 10) - 1.628_894_626_777_441_6).abs() < 1e-14);
    }

    #[test]
    fn the_ends_of_the_range_are_zero_and_infinity() {
        assert_eq!(power(10.0, 400).to_bits(), f64::INFINITY.to_bits());
        assert_eq!(power(10.0, -400).to_bits(), 0.0_f64.to_bits());
        assert_eq!(power(f64::INFINITY, -2).to_bits(), 0.0_f64.to_bits());
        assert_eq!(power(1e300, i32::MAX).to_bits(), f64::INFINITY.to_bits());
    }
}
