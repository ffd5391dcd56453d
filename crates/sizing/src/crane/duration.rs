//! Crane's durations: whole days (`7d`), or Go's form (`168h`, `1h30m`, `1.5m`), not both combined.
//!
//! Source: `pkg/utils/time.go` (`ParseDuration`) and Go's `time.ParseDuration`.

const DAY_NS: i64 = 86_400_000_000_000;

/// Parses to nanoseconds; `None` if invalid or out of range.
pub fn parse(text: &str) -> Option<i64> {
    if let Some(days) = text.strip_suffix('d') {
        return whole(days)?.parse::<i64>().ok()?.checked_mul(DAY_NS);
    }
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    loop {
        let digits = rest.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'))?;
        let (number, tail) = rest.split_at(digits);
        let end = tail
            .find(|letter: char| letter.is_ascii_digit() || letter == '.')
            .unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        total += number.parse::<f64>().ok()? * unit_ns(unit)?;
        if next.is_empty() {
            break;
        }
        rest = next;
    }
    (total < i64::MAX as f64).then_some(sign * total as i64)
}

fn whole(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

fn unit_ns(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    })
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
