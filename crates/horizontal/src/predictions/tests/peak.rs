//! The peak method.

use forecast::PriceOfFailure;

use super::*;

fn peak(window_seconds: u32) -> Method {
    Method::Peak {
        step_seconds: 60,
        window_seconds,
        price_of_failure: PriceOfFailure(0.0),
    }
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
