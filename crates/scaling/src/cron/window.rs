//! A window of time: it opens when one cron comes and closes when another does.
//!
//! It is open when it closes no later than it opens next, so that `[start, end)` counts, also over
//! midnight. Where a change of clocks leaves both times out they come at the same moment, in their
//! order. Windows that would open on a holiday stay closed. Source of the rule: gocrane/crane
//! `pkg/controller/ehpa` and `pkg/metricprovider` (`IsScheduleTriggered`); holidays are ours.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use thiserror::Error;

use super::{Schedule, ScheduleError};

/// Time zones as they are shipped with the program, so that answers do not depend on the machine.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The time zone of an IANA name. `Local`, the zone of the machine in Crane's examples, is UTC,
/// which is what containers have.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    match name {
        "" | "UTC" | "Local" => Some(TimeZone::UTC),
        name => ZONES.get(name).ok(),
    }
}

/// A window in which a workload has at least so many replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    start: Schedule,
    end: Schedule,
    zone: TimeZone,
    holidays: Vec<Date>,
    /// How many replicas it asks for.
    pub target_replicas: i32,
}

/// Why there is no such window.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    /// The time zone is not known.
    #[error("timezone: the time zone {0:?} is not known")]
    Zone(String),
    /// The start is no cron.
    #[error("start: {0}")]
    Start(ScheduleError),
    /// The end is no cron.
    #[error("end: {0}")]
    End(ScheduleError),
}

impl Window {
    /// A window between two crons, in UTC unless a time zone is named.
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

    /// The same window, closed on these dates in the time zone of its start: it does not open on
    /// them. What opened the evening before stays open.
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

/// The name that Crane makes of a cron to tell it from the others of an object: two crons of an
/// object must not have the same.
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
