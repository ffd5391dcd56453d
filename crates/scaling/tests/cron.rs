//! Windows past midnight, across clock changes and overlapping; holidays; and schedules compared
//! with a search by the minute.

use jiff::civil::{Date, DateTime, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Unit};
use proptest::prelude::*;
use scaling::cron::{CronReplicas, Schedule, Window, cron_replicas, time_zone};

fn window(zone: &str, start: &str, end: &str) -> Window {
    Window::new(Some(zone), start, end, 5).expect("a window")
}

/// The minutes at which the window opens or closes, between two local times.
fn changes(window: &Window, zone: &TimeZone, from: DateTime, to: DateTime) -> Vec<(String, bool)> {
    let at = |time: DateTime| zone.to_timestamp(time).expect("a time");
    let (mut time, to) = (at(from), at(to));
    let (mut changes, mut before) = (Vec::new(), window.is_open(time));
    while time < to {
        let is_open = window.is_open(time);
        if before != is_open {
            let local = time.to_zoned(zone.clone());
            changes.push((local.strftime("%d %H:%M %Z").to_string(), is_open));
        }
        before = is_open;
        time += SignedDuration::from_mins(1);
    }
    changes
}

/// Changes of a window from noon of a day to noon some days later.
fn check(window: &Window, zone: &str, from: Date, days: i8, expected: &[(&str, bool)]) {
    let to = from.saturating_add(jiff::Span::new().days(days));
    let noon = |date: Date| date.at(12, 0, 0, 0);
    let zone = time_zone(zone).expect("a zone");
    let found = changes(window, &zone, noon(from), noon(to));
    let expected = expected
        .iter()
        .map(|(at, is_open)| ((*at).to_owned(), *is_open));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn a_window_over_midnight_is_open_until_the_morning() {
    let night = window("Asia/Tokyo", "0 22 * * *", "0 6 * * *");
    let expected = [("01 22:00 JST", true), ("02 06:00 JST", false)];
    check(&night, "Asia/Tokyo", date(2026, 5, 1), 1, &expected);
}

#[test]
fn clocks_that_jump_forward_or_back_move_no_window_by_the_clock() {
    let day = window("Europe/Berlin", "0 9 * * *", "0 18 * * *");
    let spring = [("28 18:00 CET", false), ("29 09:00 CEST", true)];
    check(&day, "Europe/Berlin", date(2026, 3, 28), 1, &spring);
    let autumn = [("24 18:00 CEST", false), ("25 09:00 CET", true)];
    check(&day, "Europe/Berlin", date(2026, 10, 24), 1, &autumn);
}

#[test]
fn a_window_opens_at_the_change_when_its_time_is_left_out_and_stays_closed_before() {
    let early = window("America/New_York", "30 2 * * *", "0 5 * * *");
    let expected = [("08 03:00 EDT", true), ("08 05:00 EDT", false)];
    check(&early, "America/New_York", date(2026, 3, 7), 1, &expected);
}

#[test]
fn a_window_that_a_change_of_clocks_leaves_out_is_not_open_the_day_before() {
    let (new_york, berlin) = ("America/New_York", "Europe/Berlin");
    let in_berlin = [("30 02:00 CEST", true), ("30 03:00 CEST", false)];
    let hour = window(berlin, "0 2 * * *", "0 3 * * *");
    check(&hour, berlin, date(2026, 3, 28), 2, &in_berlin);
    // Closed in between alone, the last one stays open; opened at the closing time, it opens.
    for (start, end, expected) in [
        (
            "0 2 * * *",
            "0 3 * * *",
            [("09 02:00 EDT", true), ("09 03:00 EDT", false)],
        ),
        (
            "10 2 * * *",
            "40 2 * * *",
            [("09 02:10 EDT", true), ("09 02:40 EDT", false)],
        ),
        (
            "40 2 * * *",
            "10 2 * * *",
            [("09 02:10 EDT", false), ("09 02:40 EDT", true)],
        ),
    ] {
        let window = window(new_york, start, end);
        check(&window, new_york, date(2026, 3, 7), 2, &expected);
    }
    let never = window(new_york, "30 2 * * *", "30 2 * * *");
    check(&never, new_york, date(2026, 3, 7), 2, &[]);
    assert!(!never.is_open("2026-03-07T17:00:00Z".parse().expect("a time")));
}

#[test]
fn a_window_opens_and_closes_once_when_its_times_come_twice() {
    let early = window("America/New_York", "30 1 * * *", "0 5 * * *");
    let expected = [("01 01:30 EDT", true), ("01 05:00 EST", false)];
    check(&early, "America/New_York", date(2026, 10, 31), 1, &expected);
    let short = window("Australia/Lord_Howe", "45 1 * * *", "30 3 * * *");
    let expected = [("05 01:45 +11", true), ("05 03:30 +1030", false)];
    check(
        &short,
        "Australia/Lord_Howe",
        date(2026, 4, 4),
        1,
        &expected,
    );
}

#[test]
fn a_window_that_closed_is_closed_until_it_opens() {
    let berlin = "Europe/Berlin";
    // From Friday's end to Monday's start.
    let weekdays = window(berlin, "30 6 * * 1-5", "10 22 * * *");
    let expected = [("01 22:10 CEST", false), ("04 06:30 CEST", true)];
    check(&weekdays, berlin, date(2026, 5, 1), 3, &expected);
    // The whole week until Friday, although it would open each day.
    let week = window(berlin, "0 8 * * 1-5", "0 18 * * 5");
    let expected = [("08 18:00 CEST", false), ("11 08:00 CEST", true)];
    check(&week, berlin, date(2026, 5, 6), 6, &expected);
    for (start, end) in [("31 * * * *", "31 * * * *"), ("0 8 31 4 *", "0 18 * * *")] {
        let never = window(berlin, start, end);
        check(&never, berlin, date(2026, 5, 1), 3, &[]);
        assert!(
            !never.is_open("2026-05-04T12:00:00Z".parse().expect("a time")),
            "{start}"
        );
    }
}

#[test]
fn a_window_does_not_open_on_a_holiday_but_one_of_the_evening_before_goes_on() {
    let day = window("Europe/Berlin", "0 9 * * *", "0 18 * * *")
        .except([date(2026, 12, 25), date(2026, 12, 26)]);
    let expected = [("24 18:00 CET", false), ("27 09:00 CET", true)];
    check(&day, "Europe/Berlin", date(2026, 12, 24), 3, &expected);
    let night = window("Europe/Berlin", "0 22 * * *", "0 6 * * *").except([date(2026, 12, 25)]);
    let expected = [
        ("24 22:00 CET", true),
        ("25 06:00 CET", false),
        ("26 22:00 CET", true),
        ("27 06:00 CET", false),
    ];
    check(&night, "Europe/Berlin", date(2026, 12, 24), 3, &expected);
}

#[test]
fn a_holiday_is_a_date_where_the_window_opens() {
    // It opens at nine in the evening before, in UTC.
    let (start, end) = (
        "CRON_TZ=Asia/Tokyo 0 6 * * *",
        "CRON_TZ=Asia/Tokyo 0 18 * * *",
    );
    for (holiday, expected) in [
        (date(2026, 4, 30), ("01 06:00 JST", true)),
        (date(2026, 5, 1), ("30 18:00 JST", false)),
    ] {
        let window = window("", start, end).except([holiday]);
        check(&window, "Asia/Tokyo", date(2026, 4, 30), 1, &[expected]);
    }
}

#[test]
fn of_overlapping_windows_the_largest_counts_and_without_one_the_minimum_or_the_current_replicas() {
    let at = |replicas, start: &str, end: &str| {
        Window::new(None, start, end, replicas).expect("a window")
    };
    let windows = [
        at(10, "0 8 * * *", "0 20 * * *"),
        at(30, "0 12 * * *", "0 14 * * *"),
        at(1, "0 8 * * *", "0 9 * * *"),
    ];
    let check = |time: &str, kept, expected| {
        let now = format!("2026-06-01T{time}:00Z").parse().expect("a time");
        let found = cron_replicas(&windows, CronReplicas { min: 2, kept }, now);
        assert_eq!(found, expected, "{time}");
    };
    check("08:30", None, 10);
    check("12:00", None, 30);
    check("13:59", Some(50), 30);
    check("14:00", None, 10);
    check("20:00", None, 2);
    check("20:00", Some(10), 10);
    let only_one = [at(1, "0 8 * * *", "0 9 * * *")];
    let now = "2026-06-01T08:30:00Z".parse().expect("a time");
    let found = cron_replicas(&only_one, CronReplicas { min: 2, kept: None }, now);
    assert_eq!(found, 2, "never below the minimum");
}

#[test]
fn a_window_is_in_utc_unless_it_names_a_time_zone() {
    let now = "2026-06-01T08:30:00Z".parse().expect("a time");
    for (zone, expected) in [
        (None, true),
        (Some(""), true),
        (Some("Local"), true),
        (Some("Asia/Tokyo"), false),
    ] {
        let window = Window::new(zone, "0 8 * * *", "0 9 * * *", 1).expect("a window");
        assert_eq!(window.is_open(now), expected, "{zone:?}");
    }
}

#[test]
fn an_invalid_window_is_refused_with_its_field() {
    let olympus = "the time zone \"Mars/Olympus\" is not known";
    let check = |zone, start: &str, end: &str, expected: &str| {
        let error = Window::new(Some(zone), start, end, 1).expect_err(start);
        assert_eq!(error.to_string(), expected);
    };
    let at_olympus = format!("timezone: {olympus}");
    check("Mars/Olympus", "0 8 * * *", "0 9 * * *", &at_olympus);
    let starts_there = format!("start: {olympus}");
    for (start, expected) in [
        ("", "start: there must be five fields, not 0"),
        ("0 8 * * 7", "start: day of week: \"7\" is not valid"),
        ("@noon", "start: \"@noon\" is not valid"),
        ("@every soon", "start: \"@every soon\" is not valid"),
        ("TZ=Mars/Olympus 0 8 * * *", &starts_there),
    ] {
        check("UTC", start, "0 9 * * *", expected);
    }
    for (end, expected) in [
        ("0 9,, * * *", "end: hour: \"\" is not valid"),
        ("*/0 9 * * *", "end: minute: \"*/0\" is not valid"),
        ("9-5 * * * *", "end: minute: \"9-5\" is not valid"),
    ] {
        check("UTC", "0 8 * * *", end, expected);
    }
}

fn field(first: u8, last: u8) -> impl Strategy<Value = String> {
    let number = first..=last;
    prop_oneof![
        2 => Just("*".to_owned()),
        2 => number.clone().prop_map(|value| value.to_string()),
        1 => (number.clone(), number.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (number, 2..20_u8).prop_map(|(value, step)| format!("{value}/{step}")),
        1 => (2..20_u8).prop_map(|step| format!("*/{step}")),
    ]
}

const ZONES: [&str; 5] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
];

/// Whether a field, as generated by the strategy, contains a value.
fn holds(field: &str, value: i8) -> bool {
    let number = |text: &str| text.parse::<i8>().expect("a number");
    match field.split_once('/') {
        Some(("*", step)) => value % number(step) == 0,
        Some((from, step)) => value >= number(from) && (value - number(from)) % number(step) == 0,
        None if field == "*" => true,
        None => field.split_once('-').map_or_else(
            || number(field) == value,
            |(from, to)| (number(from)..=number(to)).contains(&value),
        ),
    }
}

/// Finds the time by trying every minute, between clock changes.
fn by_walking(
    fields: &[String; 3],
    zone: &TimeZone,
    after: Timestamp,
    until: Timestamp,
) -> Option<Timestamp> {
    let mut time = after.round(Unit::Minute).expect("a time") - SignedDuration::from_mins(1);
    while time <= until {
        let local = zone.to_datetime(time);
        let weekday = local.weekday().to_sunday_zero_offset();
        if time > after
            && holds(&fields[0], local.minute())
            && holds(&fields[1], local.hour())
            && holds(&fields[2], weekday)
        {
            return Some(time);
        }
        time += SignedDuration::from_mins(1);
    }
    None
}

/// Days of clock changes, forward and back.
const CHANGES: [(&str, Date); 8] = [
    ("America/New_York", date(2026, 3, 8)),
    ("America/New_York", date(2026, 11, 1)),
    ("Europe/Berlin", date(2026, 3, 29)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("Australia/Lord_Howe", date(2026, 10, 4)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("America/Sao_Paulo", date(2018, 11, 4)),
    ("America/Sao_Paulo", date(2019, 2, 17)),
];

proptest! {
    #[test]
    fn a_daily_window_follows_a_clock_that_never_runs_back(
        change in prop::sample::select(&CHANGES),
        // Tens of minutes from midnight.
        start in 0..30_i64,
        end in 0..30_i64,
    ) {
        let (name, day) = change;
        let zone = time_zone(name).expect("a zone");
        let cron = |tens: i64| format!("{} {} * * *", tens % 6 * 10, tens / 6);
        let window = window(name, &cron(start), &cron(end));
        let mut now = zone.to_timestamp(day.yesterday().expect("a day").at(12, 0, 0, 0)).expect("a time");
        let until = zone.to_timestamp(day.tomorrow().expect("a day").at(12, 0, 0, 0)).expect("a time");
        let mut clock = zone.to_datetime(now);
        while now < until {
            clock = clock.max(zone.to_datetime(now));
            let tens = i64::from(clock.hour()) * 6 + i64::from(clock.minute()) / 10;
            let expected = if start <= end { (start..end).contains(&tens) } else { !(end..start).contains(&tens) };
            prop_assert_eq!(window.is_open(now), expected, "{} to {} at {}", cron(start), cron(end), now);
            now += SignedDuration::from_mins(10);
        }
    }

    #[test]
    fn the_next_time_is_the_one_that_walking_by_the_minute_finds(
        minute in field(0, 59),
        hour in field(0, 23),
        weekday in field(0, 6),
        zone in prop::sample::select(&ZONES),
        // From the first of May, without a clock change for two months in any of these zones.
        seconds in 0..5_000_000_i64,
    ) {
        let zone = time_zone(zone).expect("a zone");
        let start: Timestamp = "2026-05-01T00:00:00Z".parse().expect("a time");
        let after = start + SignedDuration::from_secs(seconds);
        let schedule: Schedule = format!("{minute} {hour} * * {weekday}").parse().expect("a cron");
        let found = schedule.next(after, &zone).expect("a time");
        let fields = [minute, hour, weekday];
        prop_assert_eq!(by_walking(&fields, &zone, after, found), Some(found));
        // It is also the last occurrence at its own time.
        prop_assert_eq!(schedule.last(found, &zone), Some(found));
        let just_before = found - SignedDuration::from_nanos(1);
        prop_assert!(schedule.last(just_before, &zone).is_some_and(|last| last <= after));
    }

    #[test]
    fn any_text_is_a_window_or_an_error(start in ".{0,40}", end in "[0-9*/?,@ -]{0,20}", zone in "[A-Za-z/_]{0,20}") {
        if let Ok(window) = Window::new(Some(&zone), &start, &end, 1) {
            for now in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
                let _ = window.is_open(now);
            }
        }
    }
}
