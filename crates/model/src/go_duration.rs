//! Durations as Go programs read them: `1m0s`, `90s`, `1.5h`, `100ms`, with an optional sign.
//!
//! Source: Go's `time.ParseDuration`.

/// The largest number of nanoseconds that Go's `time.Duration` holds.
const MAX_NANOS: u128 = i64::MAX as u128;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GoDurationError {
    #[error("empty duration")]
    Empty,
    #[error("expected a number before {0:?}, such as 1m30s")]
    NoNumber(String),
    #[error("unknown unit {0:?}, expected ns, us, ms, s, m or h")]
    UnknownUnit(String),
    #[error("duration is longer than 292 years")]
    TooLong,
}

/// Parses to nanoseconds.
pub fn parse_go_duration(text: &str) -> Result<i64, GoDurationError> {
    let magnitude = text.strip_prefix(['-', '+']).unwrap_or(text);
    let nanos = match magnitude {
        "" => return Err(GoDurationError::Empty),
        "0" => 0,
        parts => sum_of_parts(parts)?,
    };
    Ok(if text.starts_with('-') { -nanos } else { nanos })
}

fn sum_of_parts(mut rest: &str) -> Result<i64, GoDurationError> {
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split_while(after, |c| !c.is_ascii_digit() && c != '.');
        let whole_and_fraction =
            decimal(number).ok_or_else(|| GoDurationError::NoNumber(rest.to_owned()))?;
        let unit = unit_nanos(unit).ok_or_else(|| GoDurationError::UnknownUnit(unit.to_owned()))?;
        total += nanos_of(whole_and_fraction, unit).ok_or(GoDurationError::TooLong)?;
        rest = after;
    }
    i64::try_from(total).map_err(|_| GoDurationError::TooLong)
}

fn split_while(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// Splits `1.5` into its whole digits and those of its fraction; at least one digit is needed.
fn decimal(number: &str) -> Option<(&str, &str)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let malformed = fraction.contains('.') || number.trim_matches('.').is_empty();
    (!malformed).then_some((whole, fraction))
}

fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
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
