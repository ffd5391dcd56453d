//! Sine and cosine with the same bits as Go's `math.Sincos`: the Cephes polynomials over an eighth
//! of a turn.

/// A quarter of pi in three parts; the first two are short enough that small multiples are exact.
const EIGHTH: [f64; 3] = [
    f64::from_bits(0x3fe9_21fb_4000_0000),
    f64::from_bits(0x3e64_442d_0000_0000),
    f64::from_bits(0x3ce8_4698_98cc_5170),
];
const SINE: [u64; 6] = [
    0x3de5_d8fd_1fd1_9ccd,
    0xbe5a_e5e5_a929_1f5d,
    0x3ec7_1de3_567d_48a1,
    0xbf2a_01a0_19bf_df03,
    0x3f81_1111_1110_f7d0,
    0xbfc5_5555_5555_5548,
];
const COSINE: [u64; 6] = [
    0xbda8_fa49_a086_1a9b,
    0x3e21_ee9d_7b4e_3f05,
    0xbe92_7e4f_7eac_4bc6,
    0x3efa_01a0_19c8_44f5,
    0xbf56_c16c_16c1_4f91,
    0x3fa5_5555_5555_554b,
];

/// Sine and cosine of an angle of at most 2^29 either way.
pub(super) fn sine_cosine(angle: f64) -> (f64, f64) {
    let size = angle.abs();
    let eighths = (size * (4.0 / std::f64::consts::PI)) as u64;
    let eighths = eighths + (eighths & 1);
    let whole = eighths as f64;
    let rest = ((size - whole * EIGHTH[0]) - whole * EIGHTH[1]) - whole * EIGHTH[2];
    let square = rest * rest;
    let even = 1.0 - 0.5 * square + square * square * polynomial(COSINE, square);
    let odd = rest + rest * square * polynomial(SINE, square);
    let sign = if angle < 0.0 { -1.0 } else { 1.0 };
    match eighths & 7 {
        0 => (sign * odd, even),
        2 => (sign * even, -odd),
        4 => (sign * -odd, -even),
        _ => (sign * -even, odd),
    }
}

fn polynomial(coefficients: [u64; 6], at: f64) -> f64 {
    let [first, rest @ ..] = coefficients;
    let step = |sum: f64, coefficient| sum * at + f64::from_bits(coefficient);
    rest.into_iter().fold(f64::from_bits(first), step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(angle: f64) {
        let (sine, cosine) = sine_cosine(angle);
        assert!((sine - angle.sin()).abs() < 1e-15, "sine of {angle}");
        assert!((cosine - angle.cos()).abs() < 1e-15, "cosine of {angle}");
    }

    #[test]
    fn every_eighth_of_a_turn_has_its_own_signs() {
        for step in -40_i32..=40 {
            check(f64::from(step) * 0.37);
        }
    }
}
