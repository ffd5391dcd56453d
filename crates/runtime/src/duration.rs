//! Durations as Go programs read and print them: `1m0s`, `90s`, `1.5h`, `100ms`.
//!
//! Unit: nanoseconds in a `std::time::Duration`, at most 2^63 - 1 of them as in Go. Source: Go's
//! `time.ParseDuration` and `time.Duration.String`. Negative durations are refused: no flag here
//! has a meaning for them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The largest number of nanoseconds that Go's `time.Duration` holds.
const MAX_NANOS: u128 = i64::MAX as u128;

/// A duration that reads and prints as Go's `time.Duration` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub Duration);

/// The reason why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Nothing, or a sign with nothing after it.
    #[error("empty duration")]
    Empty,
    /// A minus sign before anything but zero.
    #[error("duration must not be negative")]
    Negative,
    /// A part that does not start with a decimal number.
    #[error("expected a number before {0:?}, such as 1m30s")]
    Number(String),
    /// A number with no unit, or an unknown one.
    #[error("unknown unit {0:?}, expected ns, us, ms, s, m or h")]
    Unit(String),
    /// More than 2^63 - 1 nanoseconds (about 292 years).
    #[error("duration is longer than 292 years")]
    TooLong,
}

/// Parses a duration of at least `least`.
pub fn at_least(least: Duration, text: &str) -> Result<GoDuration, String> {
    let duration: GoDuration = text
        .parse()
        .map_err(|error: DurationError| error.to_string())?;
    if duration.0 < least {
        Err(format!("must be at least {}", GoDuration(least)))
    } else {
        Ok(duration)
    }
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
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (negative, magnitude) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let nanos = match magnitude {
            "" => return Err(DurationError::Empty),
            "0" => 0,
            parts => sum_of_parts(parts)?,
        };
        if negative && nanos > 0 {
            return Err(DurationError::Negative);
        }
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

fn sum_of_parts(mut rest: &str) -> Result<u64, DurationError> {
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split_while(after, |c| !c.is_ascii_digit() && c != '.');
        let whole_and_fraction =
            decimal(number).ok_or_else(|| DurationError::Number(rest.to_owned()))?;
        total += nanos_of(whole_and_fraction, unit_nanos(unit)?)?;
        rest = after;
    }
    if total > MAX_NANOS {
        return Err(DurationError::TooLong);
    }
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

fn unit_nanos(unit: &str) -> Result<u128, DurationError> {
    Ok(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        other => return Err(DurationError::Unit(other.to_owned())),
    })
}

fn nanos_of((whole, fraction): (&str, &str), unit: u128) -> Result<u128, DurationError> {
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| DurationError::TooLong)?
    };
    let nanos = whole
        .checked_mul(unit)
        .filter(|nanos| *nanos <= MAX_NANOS)
        .ok_or(DurationError::TooLong)?;
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
    Ok(nanos + (numerator as f64 * (unit as f64 / scale)) as u128)
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
        assert_eq!(printed.parse(), Ok(duration), "{printed} reads back");
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
            ("", DurationError::Empty),
            ("-", DurationError::Empty),
            ("-1s", DurationError::Negative),
            ("10", DurationError::Unit(String::new())),
            ("8d", DurationError::Unit("d".to_owned())),
            ("s", DurationError::Number("s".to_owned())),
            ("1m.s", DurationError::Number(".s".to_owned())),
            ("1.2.3s", DurationError::Number("1.2.3s".to_owned())),
            ("2562047h47m16.854775808s", DurationError::TooLong),
            (
                "99999999999999999999999999999999999999999999h",
                DurationError::TooLong,
            ),
        ] {
            assert_eq!(text.parse::<GoDuration>(), Err(error), "{text}");
        }
    }
}
