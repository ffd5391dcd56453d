//! Time window: opens at one cron expression and closes at another.
//!
//! It is open if it closes no later than it opens next, so it is `[start, end)`, also past
//! midnight. If a clock change skips both times, they occur at the same time, in order. Windows
//! that would open on a holiday stay closed. Source of the rule: gocrane/crane
//! `pkg/controller/ehpa` and `pkg/metricprovider` (`IsScheduleTriggered`); holidays are ours.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use thiserror::Error;

use super::{Schedule, ScheduleError};

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
    /// Number of replicas in the window.
    pub target_replicas: i32,
}

/// Errors in a window.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    /// Unknown time zone.
    #[error("timezone: the time zone {0:?} is not known")]
    Zone(String),
    /// Invalid start.
    #[error("start: {0}")]
    Start(ScheduleError),
    /// Invalid end.
    #[error("end: {0}")]
    End(ScheduleError),
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

    /// Whether it is open.
    pub fn is_open(&self, now: Timestamp) -> bool {
        let is_within = match (
            self.start.next_occurrence(now, &self.zone),
            self.end.next_occurrence(now, &self.zone),
        ) {
            // A window that never opens again has been open ever since, as in the source.
            (None, _) => true,
            (Some(_), None) => false,
            (Some(start), Some(end)) => end <= start,
        };
        is_within && !self.opened_on_a_holiday(now)
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
        text.replace(' ', "")
            .replace('*', "x")
            .replace('/', "sl")
            .replace('?', "qm")
    };
    let name = format!(
        "cron-{namespace}-{autoscaler}-{cron}-{zone}-{}-{}",
        time(start),
        time(end)
    );
    name.to_lowercase().replace(['/', '.', ':', '%'], "-")
}
