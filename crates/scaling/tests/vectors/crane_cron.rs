//! Activity of Crane's crons, and the names of their metrics.

use jiff::Timestamp;
use scaling::cron::{Schedule, Window, WindowError, metric_name, time_zone};
use serde::Deserialize;
use testing::vectors::each_case;

#[derive(Deserialize)]
struct Case {
    timezone: String,
    start: String,
    end: String,
    cron_name: String,
    metric_name_in_default_ehpa_web: String,
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Check {
    now: Timestamp,
    active: bool,
    error: bool,
}

/// For clock changes of half an hour, Crane skips every whole hour of that day: it misses the
/// reopening of this window in the evening, and so treats it as open.
const HALF_AN_HOUR: (&str, &str) = ("Australia/Lord_Howe", "2026-04-04T13:14:00Z");

/// Whether a window is open for Crane, which looks at the next times alone. [`Window`] looks at the last
/// ones, and agrees where a window opens and closes in turn.
pub(crate) fn is_open_for_crane(
    timezone: &str,
    [start, end]: [&str; 2],
    now: Timestamp,
) -> Option<bool> {
    let zone = time_zone(timezone)?;
    let next = |text: &str| Some(text.parse::<Schedule>().ok()?.next(now, &zone));
    Some(match (next(start)?, next(end)?) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(start), Some(end)) => end <= start,
    })
}

#[test]
fn vectors_crane_cron() {
    each_case("crane/cron", |number, case: Case| {
        let (timezone, start, end) = (&case.timezone, &case.start, &case.end);
        let window: Result<Window, WindowError> = Window::new(Some(timezone), start, end, 1);
        for check in &case.checks {
            let now = check.now;
            let context = format!("case {number} at {now}: {start} to {end} in {timezone}");
            assert_eq!(window.is_err(), check.error, "{context}");
            if check.error {
                continue;
            }
            let for_crane = is_open_for_crane(timezone, [start, end], now);
            let agrees = for_crane == Some(check.active);
            let is_special = (timezone.as_str(), now.to_string().as_str()) == HALF_AN_HOUR;
            assert_ne!(agrees, is_special, "{context}");
        }
    });
}

#[test]
fn vectors_crane_cron_names() {
    each_case("crane/cron", |number, case: Case| {
        let name = metric_name(
            "default",
            "web",
            &case.cron_name,
            &case.timezone,
            &case.start,
            &case.end,
        );
        assert_eq!(name, case.metric_name_in_default_ehpa_web, "case {number}");
    });
}
