//! Comparison of numbers with recorded ones.

/// Checks that two numbers differ by at most `tolerance` times the larger, or times one if both are
/// smaller.
#[track_caller]
pub(crate) fn check_close(found: f64, expected: f64, tolerance: f64, which: &str) {
    let is_number = found.is_finite() && expected.is_finite();
    let same = found.total_cmp(&expected).is_eq() || found.is_nan() && expected.is_nan();
    let is_close = is_number && (found - expected).abs() <= tolerance * expected.abs().max(1.0);
    assert!(same || is_close, "{which}: {found} for {expected}");
}

/// The same for each number of a list.
#[track_caller]
pub(crate) fn check_all_close(found: &[f64], expected: &[f64], tolerance: f64, which: &str) {
    assert_eq!(found.len(), expected.len(), "{which}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        check_close(*found, *expected, tolerance, &format!("{which}, {index}"));
    }
}
