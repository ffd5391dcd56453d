//! Forecasts of the largest sample of the coming window.

use forecast::{
    ForecastError, ObserveError, PeakConfig, PeakForecast, PeakForecaster, PriceOfFailure,
};
use jiff::Timestamp;

const DAY: i64 = 1440;

fn config(window_minutes: u32, price_of_failure: PriceOfFailure) -> PeakConfig {
    PeakConfig {
        step_seconds: 60,
        window_seconds: 60 * window_minutes,
        price_of_failure,
    }
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + 60 * minute).expect("in range")
}

fn observed(config: PeakConfig, minutes: i64, load: impl Fn(i64) -> f64) -> PeakForecaster {
    let mut forecaster = PeakForecaster::new(config).expect("valid settings");
    for minute in 0..minutes {
        forecaster
            .observe(at(minute), load(minute))
            .expect("in order");
    }
    forecaster.advance(at(minutes)).expect("no gap");
    forecaster
}

/// 10 with one minute of 20 in each slot, and from 8 to 16 o'clock three times as much.
fn office(minute: i64) -> f64 {
    let is_peak = minute % 5 == 3;
    let factor = if (480..960).contains(&(minute % DAY)) {
        3.0
    } else {
        1.0
    };
    factor * if is_peak { 20.0 } else { 10.0 }
}

fn check(forecast: &PeakForecast, expected: f64, what: &str) {
    assert!(
        (forecast.expected - expected).abs() < 0.05 * expected,
        "{what}: {forecast:?} for {expected}"
    );
}

#[test]
fn the_largest_minute_of_the_window_is_expected() {
    let mean = PriceOfFailure(0.0);
    for (minutes, window, expected) in [
        (5 * DAY + 300, 15, 20.0),
        (5 * DAY + 470, 5, 20.0),
        (5 * DAY + 470, 15, 60.0),
        (5 * DAY + 950, 15, 60.0),
        (5 * DAY + 970, 5, 20.0),
    ] {
        let forecaster = observed(config(window, mean), minutes, office);
        let forecast = forecaster.forecast().expect("five days are enough");
        check(
            &forecast,
            expected,
            &format!("{window} minutes at {minutes}"),
        );
        assert_eq!(forecast.from, at(minutes));
        assert_eq!(forecast.length.as_secs(), 60 * i64::from(window));
        assert_eq!(forecast.value.to_bits(), forecast.expected.to_bits());
    }
}

#[test]
fn a_higher_price_publishes_more() {
    let load = |minute: i64| {
        100.0
            + 30.0 * ((minute * 7919) % 101) as f64 / 101.0
            + 20.0 * ((minute / 5 * 31) % 17) as f64
    };
    let prices = [
        PriceOfFailure(0.0),
        PriceOfFailure::LOW,
        PriceOfFailure::NORMAL,
        PriceOfFailure::HIGH,
    ];
    let values = prices.map(|price| {
        let forecaster = observed(config(10, price), 4 * DAY, load);
        forecaster.forecast().expect("four days are enough").value
    });
    assert!(values.is_sorted() && values[0] < values[3], "{values:?}");
}

#[test]
fn two_days_and_a_window_are_needed() {
    let load = |_| 1.0;
    for (minutes, is_enough) in [
        (10, false),
        (DAY, false),
        (2 * DAY + 9, false),
        (2 * DAY + 10, true),
    ] {
        let forecaster = observed(config(10, PriceOfFailure::NORMAL), minutes, load);
        let forecast = forecaster.forecast();
        let is_short = matches!(forecast, Err(ForecastError::TooLittle { .. }));
        assert_eq!(!is_short, is_enough, "{minutes}: {forecast:?}");
    }
}

#[test]
fn a_gap_of_a_fortnight_empties_the_forecaster() {
    let mut forecaster = observed(config(10, PriceOfFailure::NORMAL), 3 * DAY, office);
    assert!(forecaster.forecast().is_ok());
    assert_eq!(
        forecaster.observe(at(18 * DAY), 1.0),
        Err(ObserveError::Gap)
    );
    assert!(forecaster.forecast().is_err());
    assert_eq!(forecaster.observe(at(18 * DAY), 1.0), Ok(()));
    assert_eq!(forecaster.observe(at(0), 1.0), Err(ObserveError::Late));
    assert_eq!(
        forecaster.observe(at(18 * DAY), f64::NAN),
        Err(ObserveError::NotFinite)
    );
}

#[test]
fn another_window_continues_from_the_same_history() {
    let load = |minute: i64| office(minute) + ((minute * 7919) % 101) as f64 / 50.0;
    for (from, to, price) in [
        (10, 30, PriceOfFailure::NORMAL),
        (30, 10, PriceOfFailure::NORMAL),
        (10, 10, PriceOfFailure::HIGH),
    ] {
        let minutes = 9 * DAY + 473;
        let mut forecaster = observed(config(from, PriceOfFailure::NORMAL), minutes, load);
        let mut expected = observed(config(to, price), minutes, load);
        forecaster = forecaster
            .with_config(config(to, price))
            .expect("valid settings");
        assert_eq!(forecaster.config(), config(to, price));
        for minute in minutes..minutes + 20 {
            for forecaster in [&mut forecaster, &mut expected] {
                forecaster
                    .observe(at(minute), load(minute))
                    .expect("in order");
            }
        }
        let [found, expected] = [&forecaster, &expected]
            .map(|forecaster| forecaster.forecast().expect("nine days are enough"));
        assert_eq!((found.from, found.length), (expected.from, expected.length));
        for (found, expected) in [
            (found.expected, expected.expected),
            (found.value, expected.value),
        ] {
            assert!(
                (found - expected).abs() < 1e-3 * expected,
                "{from} to {to}: {found} for {expected}"
            );
        }
    }
}

#[test]
fn an_empty_forecaster_takes_another_window() {
    let forecaster = PeakForecaster::new(config(10, PriceOfFailure::NORMAL)).expect("valid");
    let changed = forecaster.with_config(config(30, PriceOfFailure::NORMAL));
    assert!(changed.expect("valid").forecast().is_err());
    let too_long = forecaster.with_config(config(1441, PriceOfFailure::NORMAL));
    assert!(too_long.is_err());
}

#[test]
fn a_forecast_that_misleads_is_set_aside_until_it_is_better_for_a_day() {
    // Six equal days, then days without any likeness, whose level lasts for hours.
    let level = |minute: i64| 10.0 + 40.0 * ((minute / 240 * 7919) % 13) as f64 / 13.0;
    let load = |minute: i64| {
        if (6 * DAY..9 * DAY).contains(&minute) {
            level(minute)
        } else {
            office(minute)
        }
    };
    let mut forecaster = observed(config(10, PriceOfFailure::NORMAL), 6 * DAY, load);
    let mut replaced = Vec::new();
    for minute in 6 * DAY..14 * DAY {
        forecaster
            .observe(at(minute), load(minute))
            .expect("in order");
        let forecast = forecaster.forecast().expect("six days are enough");
        let accuracy = forecast.accuracy.expect("six days are enough");
        assert_eq!(forecast.replaced_by.is_some(), accuracy.set_aside.is_some());
        if let Some(set_aside) = accuracy.set_aside {
            replaced.push(minute);
            assert!(set_aside.wape > 1.1 * set_aside.simple_wape);
        }
    }
    let [first, .., last] = replaced.as_slice() else {
        panic!("it misled for three days")
    };
    assert!(*first > 6 * DAY + 60, "an hour is no day: {first}");
    assert!(last - first >= DAY, "a day is needed: {first} {last}");
    assert!(*last < 12 * DAY, "equal days are forecast: {last}");
}

#[test]
fn windows_are_at_most_a_day_and_steps_divide_it() {
    for (step, window) in [(60, 86_401), (0, 600), (420, 600), (7200, 7200)] {
        let config = PeakConfig {
            step_seconds: step,
            window_seconds: window,
            price_of_failure: PriceOfFailure::NORMAL,
        };
        assert!(PeakForecaster::new(config).is_err(), "{step} {window}");
    }
}
