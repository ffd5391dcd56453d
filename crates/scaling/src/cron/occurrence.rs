//! When a cron comes next, or came last, in a time zone.
//!
//! Days are walked in the calendar of the zone. A local time that a change of clocks leaves out
//! comes at the very change, and one that comes twice counts once, the first time: a window then
//! opens and closes on such days too.

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::schedule::Calendar;

/// How far is looked: a cron of February 29th comes within eight years at most, and one that does
/// not come within five is as good as none.
const YEARS: i16 = 5;

/// A time at which a cron comes. Those that are left out together come at the same moment, but
/// still one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Occurrence {
    pub(super) at: Timestamp,
    /// Local time that the cron wants, less the one that it comes at; negative where the former is
    /// left out.
    early: SignedDuration,
}

impl From<Timestamp> for Occurrence {
    /// One that comes when it should.
    fn from(at: Timestamp) -> Self {
        Self {
            at,
            early: SignedDuration::ZERO,
        }
    }
}

/// The first time strictly after `after`.
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

/// The last time not after `until`.
pub(super) fn last(calendar: &Calendar, until: Timestamp, zone: &TimeZone) -> Option<Occurrence> {
    let mut date = zone.to_datetime(until).date();
    let end = date.year().checked_sub(YEARS)?;
    while date.year() >= end {
        if !calendar.has_month(date) {
            date = date.first_of_month().yesterday().ok()?;
            continue;
        }
        if calendar.has_day(date) {
            let found = times(calendar, date, zone)
                .rev()
                .find(|time| time.at <= until);
            if found.is_some() {
                return found;
            }
        }
        date = date.yesterday().ok()?;
    }
    None
}

/// The times of one day, in their order: local times are, and a change of clocks moves none before
/// an earlier one.
fn times(
    calendar: &Calendar,
    date: Date,
    zone: &TimeZone,
) -> impl DoubleEndedIterator<Item = Occurrence> {
    let minutes = move |hour| calendar.minute.values().map(move |minute| (hour, minute));
    calendar
        .hour
        .values()
        .flat_map(minutes)
        .filter_map(move |(hour, minute)| {
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
            // By the clock that is yet to come this lies before the change.
            let early = after.to_timestamp(local).ok()?;
            let change = zone.following(early.checked_sub(1.second()).ok()?).next()?;
            let at = change.timestamp();
            return Some(Occurrence {
                at,
                early: local.duration_since(zone.to_datetime(at)),
            });
        }
    };
    offset.to_timestamp(local).ok().map(Occurrence::from)
}
