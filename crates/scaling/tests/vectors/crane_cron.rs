//! Activity of Crane's crons, and the names of their metrics.

use jiff::Timestamp;
use scaling::cron::{Window, WindowError, metric_name};
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

#[test]
fn vectors_crane_cron() {
    each_case("crane/cron", |number, case: Case| {
        let (timezone, start, end) = (&case.timezone, &case.start, &case.end);
        let window: Result<Window, WindowError> = Window::new(Some(timezone), start, end, 1);
        for check in &case.checks {
            let now = check.now;
            let context = format!("case {number} at {now}: {start} to {end} in {timezone}");
            assert_eq!(window.is_err(), check.error, "{context}");
            let is_open = window.as_ref().is_ok_and(|window| window.is_open(now));
            let agrees = is_open == check.active;
            let is_different = (timezone.as_str(), now.to_string().as_str()) == HALF_AN_HOUR;
            assert_ne!(agrees, is_different, "{context}");
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
