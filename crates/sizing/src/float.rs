//! Elementary functions with bit-identical results on all platforms.
//!
//! Weights and bucket boundaries are compared across restarts, machines and with upstream's
//! checkpoints, where the last bit of `exp2`, `ln` and a power matters. These are the FreeBSD msun
//! algorithms in the variant of Go's portable `math` package (`Exp2`, `Log`, `Pow`).

mod exp2;
mod ln;
mod power;

pub(crate) use exp2::exp2;
pub(crate) use ln::ln;
pub(crate) use power::power;

/// The high part of ln 2: multiples by small integers are exact.
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
/// The low part of ln 2.
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
