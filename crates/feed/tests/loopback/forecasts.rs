//! Forecasts are told as recommendations are, in terms of their own: a leader that has forecast
//! nothing yet tells nothing.

use feed::{Following, Forecast, ForecastSeries, MetricForecast, Reader};
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::certificates::Authority;
use crate::stage::{LIMIT, Replica, server_name};

fn forecast(uid: &str, value: f64) -> Forecast {
    let series = ForecastSeries {
        first_second: 1_700_000_000,
        step_seconds: 60,
        values: vec![value],
        ..Default::default()
    };
    let metric = MetricForecast {
        identifier: "resource.cpu".to_owned(),
        series: vec![series],
        ..Default::default()
    };
    Forecast {
        uid: uid.to_owned(),
        metrics: vec![metric],
        ..Forecast::default()
    }
}

fn values(following: &Following<Forecast>) -> Vec<(&str, f64)> {
    let value = |forecast: &Forecast| {
        forecast
            .metric("resource.cpu")
            .map_or(0.0, |metric| metric.series[0].values[0])
    };
    following
        .iter()
        .map(|(uid, heard)| (uid, value(&heard.value)))
        .collect()
}

async fn until(
    following: &mut watch::Receiver<Following<Forecast>>,
    is_stale: bool,
    expected: &[(&str, f64)],
) {
    let is_so = |now: &Following<Forecast>| {
        now.stale_since().is_some() == is_stale && values(now) == expected
    };
    let seen = timeout(LIMIT, following.wait_for(is_so)).await;
    assert!(matches!(seen, Ok(Ok(_))), "{expected:?} within {LIMIT:?}");
}

#[tokio::test]
async fn forecasts_are_told_changed_and_taken_back_and_outlive_their_leader() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let _recommendations = replica.lead(7, []);
    let tls = authority.client(Some((&authority, "plimsoll-webhook")));
    let leader = watch::channel(Some(replica.address.clone()));
    let current = Arc::new(move || Arc::clone(&tls));
    let reader = Reader {
        leaders: vec![leader.1],
        tls: current,
        server_name: server_name(),
    };
    let (mut following, reading) = reader.follow::<Forecast>();
    tokio::spawn(reading);
    until(&mut following, true, &[]).await;

    let now = Timestamp::UNIX_EPOCH;
    let term = replica.forecasts.begin(7);
    term.reset([forecast("a", 1.0), forecast("b", 2.0)], now);
    until(&mut following, false, &[("a", 1.0), ("b", 2.0)]).await;
    term.apply(forecast("a", 3.0), now);
    until(&mut following, false, &[("a", 3.0), ("b", 2.0)]).await;
    term.delete("b", now);
    until(&mut following, false, &[("a", 3.0)]).await;
    drop(term);
    until(&mut following, true, &[("a", 3.0)]).await;
}

#[tokio::test]
async fn a_forecast_that_is_too_large_is_left_out_and_the_others_are_told() {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let _recommendations = replica.lead(7, []);
    let tls = authority.client(Some((&authority, "plimsoll-webhook")));
    let leader = watch::channel(Some(replica.address.clone()));
    let current = Arc::new(move || Arc::clone(&tls));
    let reader = Reader {
        leaders: vec![leader.1],
        tls: current,
        server_name: server_name(),
    };
    let (mut following, reading) = reader.follow::<Forecast>();
    tokio::spawn(reading);

    let now = Timestamp::UNIX_EPOCH;
    let large = |uid: &str| {
        let mut large = forecast(uid, 1.0);
        large.metrics[0].reason = "x".repeat(5 << 20);
        large
    };
    let term = replica.forecasts.begin(7);
    term.reset([large("a"), forecast("b", 2.0)], now);
    until(&mut following, false, &[("b", 2.0)]).await;
    term.apply(forecast("a", 1.0), now);
    until(&mut following, false, &[("a", 1.0), ("b", 2.0)]).await;
    term.apply(large("a"), now);
    until(&mut following, false, &[("b", 2.0)]).await;
    assert!((replica.metric("plimsoll_feed_oversized_values_total") - 2.0).abs() < f64::EPSILON);
}
