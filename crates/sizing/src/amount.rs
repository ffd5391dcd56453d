//! Amounts of a resource as whole numbers (millicores or bytes), cut to what upstream allows.
//!
//! Source: upstream `pkg/recommender/model/types.go` (`resourceAmountFromFloat`, `ScaleResource`).

/// The largest amount.
pub(crate) const MAX: f64 = 1e14;

/// The whole part of a number, within 0 and the largest amount; 0 for NaN.
pub(crate) fn from_f64(amount: f64) -> i64 {
    amount.clamp(0.0, MAX) as i64
}

/// An amount times a factor.
pub(crate) fn scale(amount: i64, factor: f64) -> i64 {
    from_f64(amount as f64 * factor)
}
