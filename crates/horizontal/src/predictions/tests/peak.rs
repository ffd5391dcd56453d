//! The peak method.

use api::prediction::PREDICTION_ACCURATE;
use forecast::{PeakConfig, PriceOfFailure};

use super::*;

fn peak(window_seconds: u32) -> Method {
    Method::Peak(PeakConfig {
        step_seconds: 60,
        window_seconds,
        price_of_failure: PriceOfFailure(0.0),
    })
}

#[test]
fn one_value_serves_every_window() {
    let now = START + 10 * DAY + 12 * HOUR - 3600;
    let mut fixture = Fixture::new(peak(1800), now);
    fixture.read(now + 30, START);
    let forecast = fixture.forecast(now + 30);
    assert!(
        forecast.metrics[0].is_ready,
        "{}",
        forecast.metrics[0].reason
    );
    let series = &forecast.metrics[0].series[0];
    assert_eq!(series.first_second, now);
    assert_eq!(series.values.len(), 2 * WINDOW as usize / 60 + 1);
    let expected = load(now + 1800);
    let is_peak = |value: &f64| (value - expected).abs() < 0.02 * expected;
    assert!(
        series.values.iter().all(is_peak),
        "{:?} for {expected}",
        series.values[0]
    );
}

#[test]
fn there_is_none_of_a_short_or_old_history() {
    let now = START + 10 * DAY;
    for (since, later, expected) in [
        (now - DAY, 0, "too little history: 1d of at least 2d"),
        (START, 1801, "the newest sample is 30m 1s old"),
        (START, 0, ""),
    ] {
        let mut fixture = Fixture::new(peak(1800), now);
        fixture.read(now + 30, since);
        if later > 0 {
            fixture.pipeline.append(
                ReadRange {
                    first: now,
                    last: now,
                    step: 60,
                },
                Samples::new(),
                at(now + later),
            );
        }
        let result = fixture.pipeline.result();
        assert_eq!(
            result.missing.as_deref().unwrap_or_default(),
            expected,
            "{later}"
        );
    }
}

#[test]
fn another_window_or_price_counts_from_the_next_read_on_without_the_history() {
    let now = START + 10 * DAY + 12 * HOUR - 3600;
    let mut fixture = Fixture::new(peak(600), now);
    fixture.read(now + 30, START);
    let before = fixture.forecast(now + 30).metrics.remove(0).series;
    for (window_seconds, price) in [(1800, 0.0), (600, 0.0), (600, 5.0), (1800, 0.0)] {
        let metric = ForecastSpec {
            method: Method::Peak(PeakConfig {
                step_seconds: 60,
                window_seconds,
                price_of_failure: PriceOfFailure(price),
            }),
            ..fixture.metric.clone()
        };
        assert!(fixture.pipeline.is_for(&metric, WINDOW));
        fixture.pipeline.continue_with(&metric);
        assert_eq!(fixture.pipeline.method(), &metric.method);
        assert!(fixture.read(now + 30, START) < 3, "only the newest sample");
        let found = fixture.forecast(now + 30).metrics.remove(0).series[0].values[0];
        let expected = load(now + i64::from(window_seconds));
        let is_near = (found - expected).abs() < 0.02 * expected;
        assert!(is_near, "{window_seconds} {price}: {found} for {expected}");
    }
    assert_ne!(before, fixture.forecast(now + 30).metrics.remove(0).series);
    let other_step = ForecastSpec {
        method: Method::Peak(PeakConfig {
            step_seconds: 300,
            window_seconds: 600,
            price_of_failure: PriceOfFailure(0.0),
        }),
        ..fixture.metric.clone()
    };
    assert!(!fixture.pipeline.is_for(&other_step, WINDOW));
    let own = ForecastSpec {
        method: own(),
        ..fixture.metric.clone()
    };
    assert!(!fixture.pipeline.is_for(&own, WINDOW));
}

#[test]
fn a_forecast_that_was_worse_for_a_day_is_reported_and_replaced() {
    let now = START + 10 * DAY;
    let mut fixture = Fixture::new(peak(600), now);
    // Equal days until three days ago; levels of four hours without any likeness since.
    let surprise = |second: i64| {
        if second < now - 3 * DAY || second >= now {
            load(second)
        } else {
            10.0 + 40.0 * (second / (4 * HOUR) * 7919 % 13) as f64 / 13.0
        }
    };
    let append = |fixture: &mut Fixture, now: i64| {
        let range = fixture.pipeline.range(at(now));
        let seconds = (range.first.max(START)..=range.last).step_by(60);
        let samples = seconds.map(|second| (second, surprise(second))).collect();
        let samples = Samples::from([(Labels::new(), samples)]);
        fixture.pipeline.append(range, samples, at(now));
    };
    append(&mut fixture, now - 3 * DAY);
    let accurate = |fixture: &Fixture| {
        let status = fixture.written.as_ref().expect("a status");
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|condition| condition.kind == PREDICTION_ACCURATE);
        let condition = condition.expect("the accuracy is known");
        (
            condition.status,
            condition.reason.clone(),
            condition.message.clone(),
        )
    };
    fixture.write(now - 3 * DAY).expect("a first status");
    let good = (
        ConditionStatus::True,
        "BetterThanSimpleMethod".to_owned(),
        String::new(),
    );
    assert_eq!(accurate(&fixture), good);
    let mut second = now - 3 * DAY;
    while accurate(&fixture).0 == ConditionStatus::True {
        second += 300;
        assert!(second < now, "it was never set aside");
        append(&mut fixture, second);
        fixture.write(second);
    }
    let (_, reason, message) = accurate(&fixture);
    assert_eq!(reason, "WorseThanSimpleMethod");
    assert!(
        message.starts_with("resource.cpu: over a day the forecast had a WAPE of "),
        "{message}"
    );
    // The numbers stay, so that the condition is not written with each sample.
    append(&mut fixture, second + 300);
    fixture.write(second + 300);
    assert_eq!(accurate(&fixture).2, message);
    let metric = fixture.pipeline.result().accuracy.expect("known");
    assert!(metric.set_aside.is_some());
    while accurate(&fixture).0 == ConditionStatus::False {
        second += 300;
        assert!(second < now + 6 * DAY, "it never returned");
        append(&mut fixture, second);
        fixture.write(second);
    }
    assert_eq!(accurate(&fixture), good);
}
