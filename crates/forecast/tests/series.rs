//! Behaviour of the public interface on synthetic series.

use forecast::{Forecast, ForecastConfig, ForecastError, Forecaster, ObserveError};
use jiff::{SignedDuration, Timestamp};
use model::Series;

const HOUR: u32 = 3600;
const DAY: u32 = 86_400;

fn at(minute: i64) -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    start + SignedDuration::from_mins(minute)
}

fn config() -> ForecastConfig {
    with(60, &[300, HOUR, DAY])
}

fn with(step_seconds: u32, horizons_seconds: &[u32]) -> ForecastConfig {
    ForecastConfig {
        step_seconds,
        horizons_seconds: horizons_seconds.to_vec(),
    }
}

fn series(days: i64, value: impl Fn(i64) -> Option<f64>) -> Series {
    let samples = (0..days * 1440).filter_map(|minute| Some((at(minute), value(minute)?)));
    Series::new(samples.collect())
}

fn daily(minute: i64) -> f64 {
    let turn = 2.0 * std::f64::consts::PI * minute as f64 / 1440.0;
    100.0 + 60.0 * turn.sin() + (minute * 7919 % 101) as f64 / 10.0
}

fn learnt(series: &Series) -> Forecaster {
    let mut forecaster = Forecaster::fit(series, &config()).expect("there are samples");
    let (last, _) = series.points().last().expect("there are samples");
    forecaster
        .advance(*last + SignedDuration::from_mins(5))
        .expect("no gap");
    forecaster
}

fn check(series: &Series, ahead_seconds: u32, expected: f64, tolerance: f64) -> Forecast {
    let forecast = learnt(series)
        .forecast(ahead_seconds)
        .expect("enough history");
    let found = forecast.expected;
    assert!(
        (found - expected).abs() <= tolerance,
        "{ahead_seconds} s ahead: {found} for {expected}"
    );
    let ascending = [found, forecast.p90, forecast.p95, forecast.p99];
    assert!(ascending.is_sorted(), "{ascending:?}");
    forecast
}

#[test]
fn a_daily_pattern_is_foreseen_at_each_horizon() {
    let history = series(6, |minute| Some(daily(minute)));
    for ahead in [300, HOUR, 2 * HOUR, DAY] {
        let target = 6 * 1440 + i64::from(ahead) / 60;
        let forecast = check(&history, ahead, daily(target), 8.0);
        assert_eq!(forecast.as_of, at(6 * 1440));
        assert_eq!(forecast.from, at(target - 5));
    }
}

#[test]
fn a_new_level_is_followed_within_hours() {
    let risen = series(6, |minute| {
        Some(daily(minute) * if minute >= 5 * 1440 + 1080 { 3.0 } else { 1.0 })
    });
    check(&risen, HOUR, 3.0 * daily(6 * 1440 + 60), 60.0);
}

#[test]
fn one_absurd_sample_is_forgotten() {
    let spike = 5 * 1440 + 600;
    let history = series(6, |minute| {
        Some(if minute == spike { 1e6 } else { daily(minute) })
    });
    check(&history, HOUR, daily(6 * 1440 + 60), 12.0);
}

#[test]
fn a_gap_of_a_day_does_no_harm() {
    let history = series(8, |minute| {
        (!(5 * 1440..6 * 1440).contains(&minute)).then(|| daily(minute))
    });
    check(&history, HOUR, daily(8 * 1440 + 60), 12.0);
}

#[test]
fn what_never_changes_stays() {
    for value in [0.0, 7.0, -7.0, 1e13, 1e-11] {
        let size = f64::abs(value);
        let forecast = check(&series(4, |_| Some(value)), HOUR, value, 1e-6 * size);
        let off = (forecast.p99 - value).abs();
        assert!(off <= 0.02 * size + 1e-9, "{forecast:?}");
    }
}

#[test]
fn parts_are_shares_of_one() {
    let history = series(9, |minute| Some(daily(minute)));
    let weights = check(&history, HOUR, daily(9 * 1440 + 60), 8.0).weights;
    let sum: f64 = weights.iter().sum();
    assert!((sum - 1.0).abs() < 1e-9);
    let [last, ..] = weights;
    assert!(last < 0.1, "{weights:?}");
}

#[test]
fn too_little_history_is_no_forecast() {
    let check = |days: i64, value: &dyn Fn(i64) -> Option<f64>, ahead: u32, expected: bool| {
        let found = learnt(&series(days, value)).forecast(ahead);
        let is_too_little = matches!(found, Err(ForecastError::TooLittle { .. }));
        let context = format!("{days} days, {ahead} s ahead: {found:?}");
        assert_eq!(is_too_little, expected, "{context}");
    };
    let sparse = |minute: i64| (minute % 60 < 20).then(|| daily(minute));
    check(1, &|minute| Some(daily(minute)), 300, true);
    check(2, &|minute| Some(daily(minute)), HOUR, true);
    check(3, &|minute| Some(daily(minute)), HOUR, false);
    check(2, &|minute| Some(daily(minute)), DAY, true);
    check(3, &|minute| Some(daily(minute)), DAY, false);
    check(3, &sparse, HOUR, true);
    for unusable in [Series::default(), series(3, |_| Some(f64::NAN))] {
        let error = Forecaster::fit(&unusable, &config()).err();
        assert_eq!(error, Some(ForecastError::NoSamples));
    }
}

#[test]
fn what_was_not_asked_for_is_refused() {
    let history = series(4, |minute| Some(daily(minute)));
    let forecaster = Forecaster::fit(&history, &with(60, &[HOUR])).expect("there are samples");
    let too_far = Err(ForecastError::Horizon { seconds: DAY });
    assert_eq!(forecaster.forecast(DAY), too_far);
    for step_seconds in [0, 350, 7 * 60 * 60] {
        let error = Forecaster::fit(&history, &with(step_seconds, &[HOUR])).err();
        assert_eq!(error, Some(ForecastError::Step { step_seconds }));
    }
    for seconds in [0, DAY + 1, u32::MAX] {
        let error = Forecaster::fit(&history, &with(60, &[seconds])).err();
        assert_eq!(error, Some(ForecastError::Horizon { seconds }));
    }
}

#[test]
fn learning_at_once_and_slot_by_slot_give_the_same() {
    let history = series(5, |minute| (minute % 97 < 80).then(|| daily(minute)));
    let (first, rest) = history.points().split_at(2000);
    let mut live =
        Forecaster::fit(&Series::new(first.to_vec()), &config()).expect("there are samples");
    for (at, value) in rest {
        live.observe(*at, *value).expect("in order");
    }
    live.advance(at(5 * 1440)).expect("no gap");
    assert_eq!(live.forecast(HOUR), learnt(&history).forecast(HOUR));
    assert_eq!(live.observe(at(0), 1.0), Err(ObserveError::Late));
    let infinite = live.observe(at(5 * 1440), f64::INFINITY);
    assert_eq!(infinite, Err(ObserveError::NotFinite));
    assert_eq!(live.advance(at(20 * 1440)), Err(ObserveError::Gap));
}

#[test]
fn after_a_fortnight_without_samples_only_later_samples_count() {
    let history = series(25, |minute| {
        (!(1440..20 * 1440).contains(&minute)).then(|| daily(minute))
    });
    check(&history, HOUR, daily(25 * 1440 + 60), 8.0);
}
