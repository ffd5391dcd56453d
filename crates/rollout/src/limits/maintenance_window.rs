//! Maintenance windows: the times at which the pods of a VPA object, or of a namespace, may be
//! updated.
//!
//! The annotation has the form `CRON; for=DURATION; zone=ZONE; end-buffer=DURATION`. For example,
//! `0 2 * * SAT; for=4h; zone=Europe/Berlin; end-buffer=15m` opens each Saturday at 2:00 in Berlin.
//! Updates begin until 5:45. The default time zone is UTC.
//!
//! The cron is that of an EHPA and of a Kubernetes `CronJob`: five fields. The crate `croner` cannot
//! parse both: it has no `@every` and no `CRON_TZ=`, accepts Sunday as 7, and does not order two
//! times that one clock change skips (`scaling`, `tests/cron.rs`).

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use scaling::cron::Schedule;
use sizing::parse_crane_duration;

/// Annotation that users set on a VPA and a namespace: time in which pods may be updated; see
/// docs/updating.md#maintenance-windows.
///
/// That of the VPA object takes precedence.
pub const MAINTENANCE_WINDOW: &str = "plimsoll.dev/maintenance-window";

#[derive(Debug, Clone)]
pub(crate) struct MaintenanceWindow {
    opens: Schedule,
    zone: TimeZone,
    /// The time from its opening in which updates may begin.
    usable: Duration,
}

const LONGEST: Duration = Duration::from_hours(366 * 24);

/// The longest text of a window, in bytes.
const LONGEST_TEXT: usize = 256;

impl std::str::FromStr for MaintenanceWindow {
    /// The invalid part.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_TEXT {
            return Err(format!("longer than {LONGEST_TEXT} bytes"));
        }
        let mut parts = text.split(';').map(str::trim);
        let cron = parts.next().unwrap_or_default();
        let no_cron = |reason: &str| format!("{cron:?} is not a cron expression: {reason}");
        let opens = cron.parse::<Schedule>().map_err(|error| no_cron(&error))?;
        if cron.contains("@every") {
            return Err(no_cron("@every is not supported"));
        }
        let (mut length, mut buffer, mut zone) = (None, Duration::ZERO, TimeZone::UTC);
        for part in parts.filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("for", text)) => length = Some(duration("for", text)?),
                Some(("end-buffer", text)) => buffer = duration("end-buffer", text)?,
                Some(("zone", text)) => {
                    zone =
                        TimeZone::get(text).map_err(|_| format!("{text:?} is not a time zone"))?;
                }
                _ => {
                    let error = format!("{part:?} is not one of for=, zone= and end-buffer=");
                    return Err(error);
                }
            }
        }
        let length = length.ok_or("for=DURATION is missing")?;
        Ok(Self {
            opens,
            zone,
            usable: length.saturating_sub(buffer),
        })
    }
}

/// A duration above zero, of at most 366 days.
fn duration(name: &str, text: &str) -> Result<Duration, String> {
    // The parser also takes whole days, which are not allowed here.
    let nanos = (!text.ends_with('d'))
        .then(|| parse_crane_duration(text))
        .flatten();
    let duration = nanos
        .and_then(|nanos| u64::try_from(nanos).ok())
        .map(Duration::from_nanos);
    let in_range = duration.filter(|duration| !duration.is_zero() && *duration <= LONGEST);
    in_range
        .ok_or_else(|| format!("{name}: {text:?} is not a duration above 0 and at most 366 days"))
}

impl MaintenanceWindow {
    /// The time for which updates may still begin. While the window is closed, the time until it
    /// opens as an error; [`Duration::MAX`] if it never opens again.
    pub(crate) fn open_for(&self, now: Timestamp) -> Result<Duration, Duration> {
        let since = |last| Duration::try_from(now.duration_since(last)).ok();
        let since = self.opens.last(now, &self.zone).and_then(since);
        if let Some(since) = since.filter(|since| *since < self.usable) {
            return Ok(self.usable.saturating_sub(since));
        }
        let until = |next: Timestamp| Duration::try_from(next.duration_since(now)).ok();
        let until = self.opens.next(now, &self.zone).and_then(until);
        Err(until
            .filter(|_| !self.usable.is_zero())
            .unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIGHTS: &str = "0 2 * * SAT; for=4h; zone=Europe/Berlin; end-buffer=15m";

    /// Minutes until it opens; `None` while it is open.
    fn check(window: &str, now: &str, expected: Option<u64>) {
        let window: MaintenanceWindow = window.parse().expect("a window");
        let opens_in = window.open_for(now.parse().expect("a time")).err();
        assert_eq!(opens_in, expected.map(Duration::from_mins), "{now}");
    }

    fn opens_in(text: &str) -> Result<Duration, Duration> {
        let window: MaintenanceWindow = text.parse().expect("a window");
        window.open_for("2026-01-03T00:00:00Z".parse().expect("a time"))
    }

    #[test]
    fn it_is_open_from_the_cron_until_the_buffer_before_its_end() {
        // A Saturday in winter: Berlin is an hour ahead.
        check(NIGHTS, "2026-01-03T00:59:00Z", Some(1));
        check(NIGHTS, "2026-01-03T01:00:00Z", None);
        check(NIGHTS, "2026-01-03T04:44:59Z", None);
        check(NIGHTS, "2026-01-03T04:45:00Z", Some(7 * 24 * 60 - 225));
        check("0 2 * * *; for=1h", "2026-01-03T02:30:00Z", None);
        let closed = Some(22 * 60 + 30);
        check("0 2 * * *; for=1h", "2026-01-03T03:30:00Z", closed);
    }

    #[test]
    fn a_window_goes_by_local_time_when_clocks_change() {
        // On this Saturday Berlin is two hours ahead.
        check(NIGHTS, "2026-07-04T00:00:00Z", None);
        // Two o'clock comes twice that night in New York; the window opens at the first.
        let new_york = "30 1 * * SUN; for=30m; zone=America/New_York";
        check(new_york, "2026-11-01T05:45:00Z", None);
        check(new_york, "2026-11-01T05:15:00Z", Some(15));
    }

    #[test]
    fn it_is_known_when_it_closes() {
        let window: MaintenanceWindow = NIGHTS.parse().expect("a window");
        let left = |now: &str| window.open_for(now.parse().expect("a time")).ok();
        assert_eq!(left("2026-01-03T01:00:00Z"), Some(Duration::from_mins(225)));
        assert_eq!(left("2026-01-03T04:44:59Z"), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_window_longer_than_midnight_wraps() {
        check("0 22 * * *; for=8h", "2026-01-03T05:59:00Z", None);
        check("0 22 * * *; for=8h", "2026-01-03T06:00:00Z", Some(16 * 60));
    }

    #[test]
    fn february_29th_is_found_and_a_day_that_never_comes_is_not() {
        let leap_day = "0 0 29 2 *; for=24h";
        check(leap_day, "2026-02-28T00:00:00Z", Some(731 * 24 * 60));
        check(leap_day, "2028-02-29T23:00:00Z", None);
        assert_eq!(opens_in("0 0 31 2 *; for=24h"), Err(Duration::MAX));
        // It was open for all of the year after that in which it opened.
        check("0 0 29 2 *; for=8784h", "2029-02-28T23:59:00Z", None);
    }

    #[test]
    fn an_opening_is_searched_for_in_the_next_five_years_only() {
        let leap_days: MaintenanceWindow = "0 0 29 2 *; for=1h".parse().expect("a window");
        let opens_in = |now: &str| leap_days.open_for(now.parse().expect("a time"));
        let after_a_year = Err(Duration::from_hours(24 * 366));
        assert_eq!(opens_in("2095-02-28T00:00:00Z"), after_a_year);
        // The next one is in 2104.
        assert_eq!(opens_in("2096-03-01T00:00:00Z"), Err(Duration::MAX));
    }

    #[test]
    fn errors_name_the_invalid_part() {
        let error = |text: &str| {
            let error = text.parse::<MaintenanceWindow>().err();
            error.expect("no window")
        };
        let too_long = format!("0 2 * * *; for=1h{}", " ".repeat(256));
        for (text, expected) in [
            ("0 2 * * *", "for=DURATION is missing"),
            (&too_long, "longer than 256 bytes"),
            (
                "0 2 * * *; for=1h; zone=Mars/Olympus",
                "\"Mars/Olympus\" is not a time zone",
            ),
            (
                "0 2 * * *; for=1h; until=3h",
                "\"until=3h\" is not one of for=, zone= and end-buffer=",
            ),
        ] {
            assert_eq!(error(text), expected);
        }
        for cron in ["0 25 * * *", "0 0 2 * * *", "0 2 * * 7", "@every 1h"] {
            let error = error(&format!("{cron}; for=1h"));
            let expected = format!("{cron:?} is not a cron expression");
            assert!(error.starts_with(&expected), "{error}");
        }
        assert!(error("0 2 * * *; for=soon").starts_with("for: \"soon\""));
    }
}
