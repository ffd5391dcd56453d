//! When a number of ours is the recorded one.

/// Whether two numbers are the same but for rounding: within a share of the larger, at least of
/// one.
pub(crate) fn is_close(found: f64, expected: f64, tolerance: f64) -> bool {
    let is_number = found.is_finite() && expected.is_finite();
    let same = found.total_cmp(&expected).is_eq() || found.is_nan() && expected.is_nan();
    same || is_number && (found - expected).abs() <= tolerance * expected.abs().max(1.0)
}
