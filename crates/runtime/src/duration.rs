//! Durations as Go programs read and print them: `1m0s`, `90s`, `1.5h`, `100ms`.
//!
//! Unit: nanoseconds in a `std::time::Duration`, at most 2^63 - 1 of them as in Go. Source: Go's
//! `time.ParseDuration` and `time.Duration.String`. Negative durations are refused: no flag here
//! has a meaning for them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use model::parse_go_duration;

/// A duration that reads and prints as Go's `time.Duration` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub Duration);

pub fn at_least(least: Duration, text: &str) -> Result<GoDuration, String> {
    let duration: GoDuration = text
        .parse()
        .map_err(|error: anyhow::Error| error.to_string())?;
    if duration.0 < least {
        return Err(format!("must be at least {}", GoDuration(least)));
    }
    Ok(duration)
}

/// Parses an interval or a timeout of at least 100ms.
pub fn positive_duration(text: &str) -> Result<GoDuration, String> {
    at_least(Duration::from_millis(100), text)
}

impl FromStr for GoDuration {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let nanos = u64::try_from(parse_go_duration(text)?);
        let nanos = nanos.ok().context("duration must not be negative")?;
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", with_fraction(nanos, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", with_fraction(nanos, 1_000_000)),
            _ => {
                let (hours, minutes) = (nanos / 3_600_000_000_000, nanos / 60_000_000_000 % 60);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if hours > 0 || minutes > 0 {
                    write!(f, "{minutes}m")?;
                }
                write!(
                    f,
                    "{}s",
                    with_fraction(nanos % 60_000_000_000, 1_000_000_000)
                )
            }
        }
    }
}

/// `nanos / unit` in decimal without trailing zeros.
fn with_fraction(nanos: u128, unit: u128) -> String {
    let digits = unit.ilog10() as usize;
    let text = format!("{}.{:0digits$}", nanos / unit, nanos % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, printed: &str) {
        let duration: GoDuration = text
            .parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(duration.to_string(), printed, "{text}");
        assert_eq!(printed.parse().ok(), Some(duration), "{printed} reads back");
    }

    #[test]
    fn durations_read_and_print_as_in_go() {
        for (text, printed) in [
            ("0", "0s"),
            ("-0", "0s"),
            ("1m0s", "1m0s"),
            ("90s", "1m30s"),
            ("1h30m", "1h30m0s"),
            ("1.5h", "1h30m0s"),
            ("100ms", "100ms"),
            ("1500ms", "1.5s"),
            (".5s", "500ms"),
            ("5.s", "5s"),
            ("24h", "24h0m0s"),
            ("1h0.000000001s", "1h0m0.000000001s"),
            ("2us", "2µs"),
            ("2.5µs", "2.5µs"),
            ("7ns", "7ns"),
            ("1m1m", "2m0s"),
            ("0.3333333333333333333h", "20m0s"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
        ] {
            check(text, printed);
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        for (text, error) in [
            ("", "empty duration"),
            ("-", "empty duration"),
            ("-1s", "duration must not be negative"),
            ("10", "unknown unit \"\", expected ns, us, ms, s, m or h"),
            ("8d", "unknown unit \"d\", expected ns, us, ms, s, m or h"),
            ("s", "expected a number before \"s\", such as 1m30s"),
            ("1m.s", "expected a number before \".s\", such as 1m30s"),
            (
                "1.2.3s",
                "expected a number before \"1.2.3s\", such as 1m30s",
            ),
            (
                "2562047h47m16.854775808s",
                "duration is longer than 292 years",
            ),
            (
                "99999999999999999999999999999999999999999999h",
                "duration is longer than 292 years",
            ),
        ] {
            let parsed = text
                .parse::<GoDuration>()
                .map_err(|error| error.to_string());
            assert_eq!(parsed, Err(error.to_owned()), "{text}");
        }
    }
}
