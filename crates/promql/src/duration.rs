//! Durations of Prometheus, such as the step of a range query: `8d`, `1h30m`, `90s`, `500ms`. Whole milliseconds, above
//! zero.
//!
//! Source: `github.com/prometheus/common/model/time.go`. A day has 24 hours, a year 365 days.

use std::fmt;
use std::str::FromStr;

/// Units from the largest to the smallest, in milliseconds.
const UNITS: [(&str, i64); 7] = [
    ("y", 31_536_000_000),
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// A duration above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step(i64);

impl Step {
    pub fn milliseconds(self) -> i64 {
        self.0
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("{text:?} is not a duration such as 8d, 1h30m or 90s");
        let mut rest = text;
        let mut units = UNITS.iter();
        let mut total: i64 = 0;
        while !rest.is_empty() {
            let digits = rest
                .find(|letter: char| !letter.is_ascii_digit())
                .unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            let letters = after
                .find(|letter: char| letter.is_ascii_digit())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(letters);
            // Each unit may appear once, in this order.
            let unit = units.find(|(name, _)| *name == unit && !number.is_empty());
            let (_, milliseconds) = unit.ok_or_else(malformed)?;
            let number = number.parse::<i64>().ok();
            let part = number.and_then(|number| number.checked_mul(*milliseconds));
            let sum = part.and_then(|part| total.checked_add(part));
            total = sum.ok_or("the duration is too long")?;
            rest = after;
        }
        match (text.is_empty(), total) {
            (true, _) => Err(malformed()),
            (false, 0) => Err("the duration must be above zero".to_owned()),
            (false, _) => Ok(Self(total)),
        }
    }
}

/// Formats in the largest unit without a remainder.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS
            .iter()
            .find(|(_, milliseconds)| self.0 % milliseconds == 0);
        let (unit, milliseconds) = whole.unwrap_or(&("ms", 1));
        write!(f, "{}{unit}", self.0 / milliseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(i64, &str), String>) {
        let step = text.parse::<Step>();
        assert_eq!(
            step.as_ref()
                .map(|step| (step.milliseconds(), step.to_string()))
                .map_err(Clone::clone),
            expected.map(|(milliseconds, text)| (milliseconds, text.to_owned())),
            "{text:?}"
        );
    }

    #[test]
    fn durations_are_read_and_printed_as_prometheus_does() {
        check("8d", Ok((691_200_000, "8d")));
        check("1h", Ok((3_600_000, "1h")));
        check("1h30m", Ok((5_400_000, "90m")));
        check("90s", Ok((90_000, "90s")));
        check("1y2w3d4h5m6s7ms", Ok((33_019_506_007, "33019506007ms")));
        check("7d", Ok((604_800_000, "1w")));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        let malformed = |text: &str| {
            Err(format!(
                "{text:?} is not a duration such as 8d, 1h30m or 90s"
            ))
        };
        for text in [
            "", "8", "d", "1.5h", "-1h", "30m1h", "1h1h", "1H", "1h ", "8days",
        ] {
            check(text, malformed(text));
        }
        check("0s", Err("the duration must be above zero".to_owned()));
        for text in ["9999999999y", "99999999999999999999s"] {
            check(text, Err("the duration is too long".to_owned()));
        }
    }
}
