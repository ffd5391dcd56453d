//! Comparison of numbers with recorded ones.

/// Whether two numbers differ by at most `tolerance` times the larger, or times one if both are
/// smaller.
pub(crate) fn is_close(found: f64, expected: f64, tolerance: f64) -> bool {
    let is_number = found.is_finite() && expected.is_finite();
    let same = found.total_cmp(&expected).is_eq() || found.is_nan() && expected.is_nan();
    same || is_number && (found - expected).abs() <= tolerance * expected.abs().max(1.0)
}
