//! Crane's durations: whole days (`7d`), or Go's form (`168h`, `1h30m`, `1.5m`), not both combined.
//!
//! Source: `pkg/utils/time.go` (`ParseDuration`) and Go's `time.ParseDuration`.

use model::parse_go_duration;

use crate::instant::DAY_NS;

/// Parses to nanoseconds; `None` if invalid or out of range.
pub fn parse(text: &str) -> Option<i64> {
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
        assert_eq!(parse(text), expected, "{text}");
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
