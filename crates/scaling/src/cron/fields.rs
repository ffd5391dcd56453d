//! One field of a cron expression: `*`, numbers, names, ranges and steps, as a set of bits.
//!
//! Source: the syntax of robfig/cron v3 `ParseStandard`, which Crane uses. `?` means `*`, `7/5`
//! means from 7 in steps of 5, Sunday is 0 and never 7.

use super::ScheduleError;

/// Values of a field, and whether it is unrestricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    bits: u64,
    /// `*` or `?`, without a step.
    pub(super) is_any: bool,
}

pub(super) struct Range {
    name: &'static str,
    first: u8,
    last: u8,
    names: &'static [&'static str],
}

pub(super) const MINUTE: Range = Range {
    name: "minute",
    first: 0,
    last: 59,
    names: &[],
};
pub(super) const HOUR: Range = Range {
    name: "hour",
    first: 0,
    last: 23,
    names: &[],
};
pub(super) const DAY_OF_MONTH: Range = Range {
    name: "day of month",
    first: 1,
    last: 31,
    names: &[],
};
pub(super) const MONTH: Range = Range {
    name: "month",
    first: 1,
    last: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
pub(super) const DAY_OF_WEEK: Range = Range {
    name: "day of week",
    first: 0,
    last: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Field {
    pub(super) fn contains(self, value: i8) -> bool {
        (0..64).contains(&value) && self.bits & (1 << value) != 0
    }

    /// The values in ascending order.
    pub(super) fn values(self) -> impl DoubleEndedIterator<Item = i8> {
        (0..64).filter(move |value| self.contains(*value))
    }

    /// The union of two fields.
    fn or(self, other: Self) -> Self {
        Self {
            bits: self.bits | other.bits,
            is_any: self.is_any || other.is_any,
        }
    }
}

impl Range {
    pub(super) fn parse(&self, text: &str) -> Result<Field, ScheduleError> {
        let nothing = Field {
            bits: 0,
            is_any: false,
        };
        text.split(',')
            .try_fold(nothing, |field, part| Ok(field.or(self.part(part)?)))
    }

    fn part(&self, text: &str) -> Result<Field, ScheduleError> {
        let wrong = || ScheduleError::Field {
            field: self.name,
            text: text.into(),
        };
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (
                range,
                Some(
                    step.parse::<u8>()
                        .ok()
                        .filter(|step| *step > 0)
                        .ok_or_else(wrong)?,
                ),
            ),
            None => (text, None),
        };
        let (from, to, is_star) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (self.first, self.last, true),
            Some((from, to)) => (
                self.value(from).ok_or_else(wrong)?,
                self.value(to).ok_or_else(wrong)?,
                false,
            ),
            None => {
                let only = self.value(range).ok_or_else(wrong)?;
                (only, if step.is_some() { self.last } else { only }, false)
            }
        };
        if from < self.first || to > self.last || from > to {
            return Err(wrong());
        }
        let step = step.unwrap_or(1);
        let bits = (from..=to)
            .step_by(step.into())
            .fold(0, |bits, value| bits | 1_u64 << value);
        Ok(Field {
            bits,
            is_any: is_star && step == 1,
        })
    }

    fn value(&self, text: &str) -> Option<u8> {
        let by_name = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        match by_name {
            Some(index) => u8::try_from(index).ok()?.checked_add(self.first),
            None => text.parse().ok(),
        }
    }
}
