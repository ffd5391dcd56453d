//! Time window: opens at one cron expression and closes at another.
//!
//! It is open if it opened last after it closed last, so it is `[start, end)`, also past midnight. If
//! a clock change skips both times, they occur at the same time, in order. Windows that would open on
//! a holiday stay closed.
//!
//! Crane and KEDA look at the next times alone: a window from Monday to Friday that closes each evening
//! is open from Friday's end until Saturday's, and one that starts and ends at the same times is always
//! open. Source: gocrane/crane `pkg/controller/ehpa` and `pkg/metricprovider` (`IsScheduleTriggered`).

use std::sync::LazyLock;

use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};
use thiserror::Error;

use super::Schedule;

/// Maximum number of times of a schedule that are looked at for its periods.
const MAX_STEPS: usize = 200;

/// Bundled time zones, so that results do not depend on the machine.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The time zone of an IANA name. `Local`, the machine's zone in Crane's examples, is UTC, as in
/// containers.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    match name {
        "" | "UTC" | "Local" => Some(TimeZone::UTC),
        name => ZONES.get(name).ok(),
    }
}

/// Window with a minimum number of replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    start: Schedule,
    end: Schedule,
    zone: TimeZone,
    holidays: Vec<Date>,
    pub target_replicas: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    pub from: Zoned,
    /// Its end, if it is known.
    pub to: Option<Zoned>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    #[error("timezone: the time zone {0:?} is not known")]
    Zone(String),
    #[error("start: {0}")]
    Start(String),
    #[error("end: {0}")]
    End(String),
}

impl Window {
    /// A window between two cron expressions, in UTC unless a time zone is given.
    pub fn new(
        zone: Option<&str>,
        start: &str,
        end: &str,
        target_replicas: i32,
    ) -> Result<Self, WindowError> {
        let name = zone.unwrap_or_default();
        Ok(Self {
            start: start.parse().map_err(WindowError::Start)?,
            end: end.parse().map_err(WindowError::End)?,
            zone: time_zone(name).ok_or_else(|| WindowError::Zone(name.to_owned()))?,
            holidays: Vec::new(),
            target_replicas,
        })
    }

    /// Closes the window on these dates in the time zone of its start: it does not open on them. A
    /// window opened the evening before stays open.
    #[must_use]
    pub fn except(mut self, holidays: impl IntoIterator<Item = Date>) -> Self {
        self.holidays.extend(holidays);
        self
    }

    pub fn is_open(&self, now: Timestamp) -> bool {
        let [opened, closed] =
            [&self.start, &self.end].map(|schedule| schedule.last_occurrence(now, &self.zone));
        opened.is_some() && opened > closed && !self.opened_on_a_holiday(now)
    }

    /// The reason why it never opens, if it does not. Crane keeps such a window open for ever.
    pub fn never_opens(&self) -> Option<&'static str> {
        // Within five years every date comes.
        if self.start.next(Timestamp::UNIX_EPOCH, &self.zone).is_none() {
            Some("start never comes, so the window never opens")
        } else if self.start == self.end {
            Some("start and end are the same, so the window never opens")
        } else {
            None
        }
    }

    /// The times in which it is open from `now` until `until`, in its time zone: the first `most`. The
    /// first one may have begun before; one that does not close until then has no end.
    pub fn periods(&self, now: Timestamp, until: Timestamp, most: usize) -> Vec<Period> {
        let zone = self.start.zone_or(&self.zone);
        let local = |at: Timestamp| at.to_zoned(zone.clone());
        let mut periods = Vec::new();
        let opened = || self.start.last(now, &self.zone);
        let mut opened = self.is_open(now).then(opened).flatten();
        let mut at = now;
        // Schedules may come every minute.
        for _ in 0..MAX_STEPS {
            let next = [&self.start, &self.end].map(|schedule| schedule.next(at, &self.zone));
            let next = next.into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= until && periods.len() < most) else {
                break;
            };
            at = next;
            match (opened, self.is_open(at)) {
                (None, true) => opened = Some(at),
                (Some(from), false) => {
                    let (from, to) = (local(from), Some(local(at)));
                    periods.push(Period { from, to });
                    opened = None;
                }
                (None, false) | (Some(_), true) => {}
            }
        }
        if let Some(from) = opened.filter(|_| periods.len() < most) {
            let (from, to) = (local(from), None);
            periods.push(Period { from, to });
        }
        periods
    }

    fn opened_on_a_holiday(&self, now: Timestamp) -> bool {
        !self.holidays.is_empty()
            && self.start.last(now, &self.zone).is_some_and(|opened| {
                let date = self.start.zone_or(&self.zone).to_datetime(opened).date();
                self.holidays.contains(&date)
            })
    }
}

/// Crane's metric name of a cron, which must be unique within an object.
pub fn metric_name(
    namespace: &str,
    autoscaler: &str,
    cron: &str,
    zone: &str,
    start: &str,
    end: &str,
) -> String {
    let time = |text: &str| {
        let text = text.replace(' ', "").replace('*', "x");
        text.replace('/', "sl").replace('?', "qm")
    };
    let (start, end) = (time(start), time(end));
    let name = format!("cron-{namespace}-{autoscaler}-{cron}-{zone}-{start}-{end}");
    name.to_lowercase().replace(['/', '.', ':', '%'], "-")
}
