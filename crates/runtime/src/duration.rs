//! Durations as Go programs read and print them: `1m0s`, `90s`, `1.5h`, `100ms`.
//!
//! Unit: nanoseconds in a `std::time::Duration`, at most 2^63 - 1 of them as in Go. Source: Go's
//! `time.ParseDuration` and `time.Duration.String`. Negative durations are refused: no flag here
//! has a meaning for them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

/// The largest number of nanoseconds that Go's `time.Duration` holds.
const MAX_NANOS: u128 = i64::MAX as u128;
const TOO_LONG: &str = "duration is longer than 292 years";

/// A duration that reads and prints as Go's `time.Duration` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub Duration);

/// Parses a duration of at least `least`.
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

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

impl FromStr for GoDuration {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let magnitude = text.strip_prefix(['-', '+']).unwrap_or(text);
        let nanos = match magnitude {
            "" => bail!("empty duration"),
            "0" => 0,
            parts => sum_of_parts(parts)?,
        };
        ensure!(
            nanos == 0 || !text.starts_with('-'),
            "duration must not be negative"
        );
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

fn sum_of_parts(mut rest: &str) -> anyhow::Result<u64> {
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split_while(after, |c| !c.is_ascii_digit() && c != '.');
        let whole_and_fraction = decimal(number)
            .with_context(|| format!("expected a number before {rest:?}, such as 1m30s"))?;
        total += nanos_of(whole_and_fraction, unit_nanos(unit)?).context(TOO_LONG)?;
        rest = after;
    }
    ensure!(total <= MAX_NANOS, TOO_LONG);
    Ok(total as u64)
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// Splits `1.5` into its whole digits and the digits of its fraction; at least one digit is needed
/// in all.
fn decimal(number: &str) -> Option<(&str, &str)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let malformed = fraction.contains('.') || number.trim_matches('.').is_empty();
    (!malformed).then_some((whole, fraction))
}

fn unit_nanos(unit: &str) -> anyhow::Result<u128> {
    Ok(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        other => bail!("unknown unit {other:?}, expected ns, us, ms, s, m or h"),
    })
}

/// `None` for more than Go's maximum.
fn nanos_of((whole, fraction): (&str, &str), unit: u128) -> Option<u128> {
    let whole: u128 = match whole {
        "" => 0,
        digits => digits.parse().ok()?,
    };
    let nanos = whole
        .checked_mul(unit)
        .filter(|nanos| *nanos <= MAX_NANOS)?;
    let (mut numerator, mut scale) = (0u64, 1f64);
    for digit in fraction.bytes() {
        // Digits past the 19th cannot matter.
        if numerator > i64::MAX as u64 / 10 {
            break;
        }
        numerator = numerator * 10 + u64::from(digit - b'0');
        scale *= 10.0;
    }
    // In floating point as Go does, so that 0.3333333333333333333h is 20 minutes here too.
    Some(nanos + (numerator as f64 * (unit as f64 / scale)) as u128)
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
            ("2562047h47m16.854775808s", TOO_LONG),
            ("99999999999999999999999999999999999999999999h", TOO_LONG),
        ] {
            let parsed = text
                .parse::<GoDuration>()
                .map_err(|error| error.to_string());
            assert_eq!(parsed, Err(error.to_owned()), "{text}");
        }
    }
}
