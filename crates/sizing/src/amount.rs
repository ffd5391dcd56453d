//! Resource amounts as integers (millicores or bytes), limited to upstream's range.
//!
//! Source: upstream `pkg/recommender/model/types.go` (`resourceAmountFromFloat`, `ScaleResource`).

pub(crate) const MAX: f64 = 1e14;

/// The integral part of a number, between 0 and the largest amount; 0 for NaN.
pub(crate) fn from_f64(amount: f64) -> i64 {
    amount.clamp(0.0, MAX) as i64
}

pub(crate) fn scale(amount: i64, factor: f64) -> i64 {
    from_f64(amount as f64 * factor)
}
