//! Crane's sizing method: a weighted percentile over linear buckets, a margin, a target
//! utilisation, protection after OOM kills and optionally the next size of a list.
//!
//! Source: gocrane/crane `pkg/prediction/percentile` and `pkg/recommendation/recommender/resource`.
//! Differences, with reasons: a size of the list keeps its exact value (there it is printed with
//! two decimals, so that 0.125 cores become 0.12), and invalid settings are errors instead of being
//! replaced by defaults.

mod histogram;
mod history;
mod percentile;
mod resource;

use model::parse_go_duration;

use super::instant::DAY_NS;
pub use histogram::{Layout, WeightedHistogram};
pub(crate) use history::CraneHistory;
pub use percentile::{HistogramSettings, PercentilePredictor, PercentileSettings};
pub use resource::{CraneConfig, Specification, Specifications, protected_memory};

/// Parses whole days (`7d`) or Go's form (`1h30m`), not both combined, to nanoseconds; `None` if invalid
/// or out of range. Source: `pkg/utils/time.go` (`ParseDuration`) and Go's `time.ParseDuration`.
pub fn parse_duration(text: &str) -> Option<i64> {
    match text.strip_suffix('d') {
        Some(days) if days.bytes().all(|byte| byte.is_ascii_digit()) => {
            days.parse::<i64>().ok()?.checked_mul(DAY_NS)
        }
        _ => parse_go_duration(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected_seconds: Option<i64>) {
        let expected = expected_seconds.map(|seconds| seconds * 1_000_000_000);
        assert_eq!(parse_duration(text), expected, "{text}");
    }

    #[test]
    fn days_stand_alone_and_all_else_is_gos_form() {
        check("7d", Some(604_800));
        check("168h", Some(604_800));
        check("1h30m", Some(5400));
        check("1.5m", Some(90));
        check("-1s", Some(-1));
        check("0", Some(0));
        for text in ["", "d", "bad", "1d12h", "5", "1x", ".h", "1h2", "-7d"] {
            check(text, None);
        }
        for too_long in ["99999999999999999h", "9999999999999d"] {
            check(too_long, None);
        }
    }
}
