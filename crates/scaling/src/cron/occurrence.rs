//! Previous and next occurrence of a cron expression in a time zone.
//!
//! Days are iterated in the calendar of the zone. A local time skipped by a clock change occurs at
//! the change, and one that occurs twice counts once, the first time: so windows open and close on
//! such days too.

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::schedule::Calendar;

/// Search limit: an expression for February 29th occurs within eight years at most, and one without
/// an occurrence within five is treated as having none.
const YEARS: i16 = 5;

/// Occurrence of a cron expression. Occurrences skipped by one clock change have the same time, but
/// stay ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Occurrence {
    pub(super) at: Timestamp,
    /// Requested local time minus actual local time; negative if the former is skipped.
    early: SignedDuration,
}

/// The first occurrence strictly after `after`.
pub(super) fn next(calendar: &Calendar, after: Timestamp, zone: &TimeZone) -> Option<Occurrence> {
    let mut date = zone.to_datetime(after).date();
    let end = date.year().checked_add(YEARS)?;
    while date.year() <= end {
        if !calendar.has_month(date) {
            date = date.last_of_month().tomorrow().ok()?;
            continue;
        }
        if calendar.has_day(date) {
            let found = times(calendar, date, zone).find(|time| time.at > after);
            if found.is_some() {
                return found;
            }
        }
        date = date.tomorrow().ok()?;
    }
    None
}

pub(super) fn last(calendar: &Calendar, until: Timestamp, zone: &TimeZone) -> Option<Occurrence> {
    let mut date = zone.to_datetime(until).date();
    let end = date.year().checked_sub(YEARS)?;
    while date.year() >= end {
        if !calendar.has_month(date) {
            date = date.first_of_month().yesterday().ok()?;
            continue;
        }
        if calendar.has_day(date) {
            let mut times = times(calendar, date, zone).rev();
            let found = times.find(|time| time.at <= until);
            if found.is_some() {
                return found;
            }
        }
        date = date.yesterday().ok()?;
    }
    None
}

/// The occurrences of one day in order: local times are ordered, and a clock change does not
/// reorder them.
fn times(
    calendar: &Calendar,
    date: Date,
    zone: &TimeZone,
) -> impl DoubleEndedIterator<Item = Occurrence> {
    let minutes = move |hour| calendar.minute.values().map(move |minute| (hour, minute));
    let times = calendar.hour.values().flat_map(minutes);
    times.filter_map(move |(hour, minute)| {
        let time = Time::new(hour, minute, 0, 0).ok()?;
        instant(date, time, zone)
    })
}

fn instant(date: Date, time: Time, zone: &TimeZone) -> Option<Occurrence> {
    let local = date.to_datetime(time);
    let offset = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Fold { before, .. } => before,
        AmbiguousOffset::Gap { after, .. } => {
            // With the offset after the change, this lies before the change.
            let early = after.to_timestamp(local).ok()?;
            let change = zone.following(early.checked_sub(1.second()).ok()?).next()?;
            let at = change.timestamp();
            return Some(Occurrence {
                at,
                early: local.duration_since(zone.to_datetime(at)),
            });
        }
    };
    let at = offset.to_timestamp(local).ok()?;
    let early = SignedDuration::ZERO;
    Some(Occurrence { at, early })
}
