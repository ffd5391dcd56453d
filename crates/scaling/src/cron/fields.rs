//! One field of a cron expression: `*`, numbers, names, ranges and steps, as a set of bits.
//!
//! Source: the syntax of robfig/cron v3 `ParseStandard`, which Crane uses. `?` means `*`, `7/5`
//! means from 7 in steps of 5, Sunday is 0 and never 7.

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

pub(super) const MINUTE: Range = Range::numbers("minute", 0, 59);
pub(super) const HOUR: Range = Range::numbers("hour", 0, 23);
pub(super) const DAY_OF_MONTH: Range = Range::numbers("day of month", 1, 31);
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

    fn or(self, other: Self) -> Self {
        Self {
            bits: self.bits | other.bits,
            is_any: self.is_any || other.is_any,
        }
    }
}

impl Range {
    const fn numbers(name: &'static str, first: u8, last: u8) -> Self {
        let names = &[];
        Self {
            name,
            first,
            last,
            names,
        }
    }

    pub(super) fn parse(&self, text: &str) -> Result<Field, String> {
        let nothing = Field {
            bits: 0,
            is_any: false,
        };
        text.split(',')
            .try_fold(nothing, |field, part| Ok(field.or(self.part(part)?)))
    }

    fn part(&self, text: &str) -> Result<Field, String> {
        let wrong = || format!("{}: {text:?} is not valid", self.name);
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => {
                let step = step.parse().ok().filter(|step: &u8| *step > 0);
                (range, Some(step.ok_or_else(wrong)?))
            }
            None => (text, None),
        };
        let value = |text: &str| self.value(text).ok_or_else(wrong);
        let is_star = range == "*" || range == "?";
        let (from, to) = match range.split_once('-') {
            _ if is_star => (self.first, self.last),
            Some((from, to)) => (value(from)?, value(to)?),
            None if step.is_some() => (value(range)?, self.last),
            None => (value(range)?, value(range)?),
        };
        if from < self.first || to > self.last || from > to {
            return Err(wrong());
        }
        let step = step.unwrap_or(1);
        let values = (from..=to).step_by(step.into());
        let bits = values.fold(0, |bits, value| bits | 1_u64 << value);
        Ok(Field {
            bits,
            is_any: is_star && step == 1,
        })
    }

    fn value(&self, text: &str) -> Option<u8> {
        let mut names = self.names.iter();
        match names.position(|name| name.eq_ignore_ascii_case(text)) {
            Some(index) => u8::try_from(index).ok()?.checked_add(self.first),
            None => text.parse().ok(),
        }
    }
}
