//! Cron windows: minimum replicas during recurring time windows with time zones.
//!
//! `schedule.rs` parses the five fields, `occurrence.rs` finds the next time in a time zone, and
//! `window.rs` decides whether a window is open.

mod occurrence;
mod schedule;
mod window;

use jiff::Timestamp;

pub use schedule::Schedule;
pub use window::{Period, Window, WindowError, metric_name, time_zone};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronReplicas {
    pub min: i32,
    /// Current number of replicas, if windows are the only metric.
    pub kept: Option<i32>,
}

/// The maximum of the open windows, which raise and never cap. Without an open window, an object
/// with other metrics gets its minimum, so that they decide, and one with windows alone keeps its
/// current replicas. Source: Crane's documentation; its program returns the minimum in both cases.
pub fn cron_replicas(windows: &[Window], workload: CronReplicas, now: Timestamp) -> i32 {
    let open = windows.iter().filter(|window| window.is_open(now));
    let open = open.map(|window| window.target_replicas).max();
    match (open, workload.kept) {
        (Some(target), _) => target.max(workload.min),
        (None, Some(kept)) => kept,
        (None, None) => workload.min,
    }
}

/// Values of a field, and whether it is unrestricted.
/// Source: the syntax of robfig/cron v3 `ParseStandard`, which Crane uses. `?` means `*`, `7/5` means
/// from 7 in steps of 5, Sunday is 0 and never 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// `*` or `?`, without a step.
    is_any: bool,
}

struct Range {
    name: &'static str,
    first: u8,
    last: u8,
    names: &'static [&'static str],
}

const MINUTE: Range = Range::numbers("minute", 0, 59);
const HOUR: Range = Range::numbers("hour", 0, 23);
const DAY_OF_MONTH: Range = Range::numbers("day of month", 1, 31);
const MONTH: Range = Range {
    name: "month",
    first: 1,
    last: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const DAY_OF_WEEK: Range = Range {
    name: "day of week",
    first: 0,
    last: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Field {
    fn contains(self, value: i8) -> bool {
        (0..64).contains(&value) && self.bits & (1 << value) != 0
    }

    /// The values in ascending order.
    fn values(self) -> impl DoubleEndedIterator<Item = i8> {
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

    fn parse(&self, text: &str) -> Result<Field, String> {
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
