//! Cron schedule: five fields, a word such as `@daily`, or `@every` and a duration, with an
//! optional time zone.
//!
//! Source: robfig/cron v3 `ParseStandard`. If day of month and day of week are both restricted, one
//! of them is enough.

use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::occurrence::{self, Occurrence};
use super::{DAY_OF_MONTH, DAY_OF_WEEK, Field, HOUR, MINUTE, MONTH, window};

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pattern: Pattern,
    /// Time zone in the text; otherwise the caller's is used.
    zone: Option<TimeZone>,
}

#[derive(Clone, Debug, PartialEq)]
enum Pattern {
    Calendar(Calendar),
    Every(SignedDuration),
}

/// Minutes and days of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calendar {
    pub(super) minute: Field,
    pub(super) hour: Field,
    day_of_month: Field,
    month: Field,
    day_of_week: Field,
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let own = text
            .strip_prefix("CRON_TZ=")
            .or_else(|| text.strip_prefix("TZ="));
        let (zone, rest) = match own {
            None => (None, text),
            Some(own) => {
                let (name, rest) = own.split_once(' ').unwrap_or((own, ""));
                let zone = window::time_zone(name);
                let zone = zone.ok_or_else(|| format!("the time zone {name:?} is not known"))?;
                (Some(zone), rest.trim())
            }
        };
        Ok(Self {
            pattern: Pattern::parse(rest)?,
            zone,
        })
    }
}

impl Schedule {
    /// The next time strictly after `after`; `None` if not within five years. `zone` applies unless
    /// the schedule has its own.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.pattern {
            Pattern::Calendar(calendar) => {
                occurrence::next(calendar, after, self.zone_or(zone)).map(|next| next.at)
            }
            // Counted from the query: the interval has no start.
            Pattern::Every(interval) => {
                let whole_second = Timestamp::from_second(after.as_second()).ok()?;
                whole_second.checked_add(*interval).ok()
            }
        }
    }

    /// The last time until `until`, inclusive; `None` if not within five years, or for `@every`,
    /// which counts from the query.
    pub fn last(&self, until: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        self.last_occurrence(until, zone).map(|last| last.at)
    }

    /// The last occurrence with its position among those at the same time.
    pub(super) fn last_occurrence(&self, until: Timestamp, zone: &TimeZone) -> Option<Occurrence> {
        match &self.pattern {
            Pattern::Calendar(calendar) => occurrence::last(calendar, until, self.zone_or(zone)),
            Pattern::Every(_) => None,
        }
    }

    pub(super) fn zone_or<'a>(&'a self, zone: &'a TimeZone) -> &'a TimeZone {
        self.zone.as_ref().unwrap_or(zone)
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            word if word.starts_with('@') => return Self::every(word),
            fields => fields,
        };
        Calendar::parse(fields).map(Self::Calendar)
    }

    fn every(word: &str) -> Result<Self, String> {
        let wrong = || format!("{word:?} is not valid");
        let text = word.strip_prefix("@every ").ok_or_else(wrong)?;
        let interval: SignedDuration = text.parse().map_err(|_| wrong())?;
        let seconds = interval.as_secs().max(1);
        Ok(Self::Every(SignedDuration::from_secs(seconds)))
    }
}

impl Calendar {
    fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day_of_month, month, day_of_week] = fields[..] else {
            return Err(format!("there must be five fields, not {}", fields.len()));
        };
        Ok(Self {
            minute: MINUTE.parse(minute)?,
            hour: HOUR.parse(hour)?,
            day_of_month: DAY_OF_MONTH.parse(day_of_month)?,
            month: MONTH.parse(month)?,
            day_of_week: DAY_OF_WEEK.parse(day_of_week)?,
        })
    }

    pub(super) fn has_month(&self, date: Date) -> bool {
        self.month.contains(date.month())
    }

    pub(super) fn has_day(&self, date: Date) -> bool {
        let by_month = self.day_of_month.contains(date.day());
        let weekday = date.weekday().to_sunday_zero_offset();
        let by_week = self.day_of_week.contains(weekday);
        if self.day_of_month.is_any || self.day_of_week.is_any {
            by_month && by_week
        } else {
            by_month || by_week
        }
    }
}
