//! Forecasts are published like recommendations, in terms of their own: nothing before the leader's
//! first forecast.

use feed::{Forecast, ForecastSeries, MetricForecast, Reader, Subscription};
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::certificates::Authority;
use crate::fixture::{LIMIT, Replica, server_name};

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

fn values(subscription: &Subscription<Forecast>) -> Vec<(&str, f64)> {
    let value = |forecast: &Forecast| {
        forecast
            .metric("resource.cpu")
            .map_or(0.0, |metric| metric.series[0].values[0])
    };
    subscription
        .iter()
        .map(|(uid, received)| (uid, value(&received.value)))
        .collect()
}

async fn until(
    subscription: &mut watch::Receiver<Subscription<Forecast>>,
    is_stale: bool,
    expected: &[(&str, f64)],
) {
    let is_so = |now: &Subscription<Forecast>| {
        now.stale_since().is_some() == is_stale && values(now) == expected
    };
    let seen = timeout(LIMIT, subscription.wait_for(is_so)).await;
    assert!(matches!(seen, Ok(Ok(_))), "{expected:?} within {LIMIT:?}");
}

/// A replica that leads, its address for the reader, and a reader of its forecasts.
async fn subscribed() -> (
    Replica,
    watch::Sender<Option<String>>,
    watch::Receiver<Subscription<Forecast>>,
) {
    let authority = Authority::new();
    let replica = Replica::start(&authority).await;
    let tls = authority.named("plimsoll-webhook");
    let (sender, leader) = watch::channel(Some(replica.address.clone()));
    let reader = Reader {
        leaders: vec![leader],
        tls: Arc::new(move || Arc::clone(&tls)),
        server_name: server_name(),
    };
    let (subscription, reading) = reader.subscribe::<Forecast>();
    tokio::spawn(reading);
    (replica, sender, subscription)
}

#[tokio::test]
async fn forecasts_are_published_changed_and_deleted_and_outlive_their_leader() {
    let (replica, _leader, mut subscription) = subscribed().await;
    let _recommendations = replica.lead(7, []);
    until(&mut subscription, true, &[]).await;

    let now = Timestamp::UNIX_EPOCH;
    let term = replica.forecasts.begin(7);
    term.reset([forecast("a", 1.0), forecast("b", 2.0)], now);
    until(&mut subscription, false, &[("a", 1.0), ("b", 2.0)]).await;
    term.apply(forecast("a", 3.0), now);
    until(&mut subscription, false, &[("a", 3.0), ("b", 2.0)]).await;
    term.delete("b", now);
    until(&mut subscription, false, &[("a", 3.0)]).await;
    drop(term);
    until(&mut subscription, true, &[("a", 3.0)]).await;
}

#[tokio::test]
async fn an_oversized_forecast_is_left_out_and_the_others_are_published() {
    let (replica, _leader, mut subscription) = subscribed().await;
    let _recommendations = replica.lead(7, []);

    let now = Timestamp::UNIX_EPOCH;
    let large = |uid: &str| {
        let mut large = forecast(uid, 1.0);
        large.metrics[0].reason = "x".repeat(5 << 20);
        large
    };
    let term = replica.forecasts.begin(7);
    term.reset([large("a"), forecast("b", 2.0)], now);
    until(&mut subscription, false, &[("b", 2.0)]).await;
    term.apply(forecast("a", 1.0), now);
    until(&mut subscription, false, &[("a", 1.0), ("b", 2.0)]).await;
    term.apply(large("a"), now);
    until(&mut subscription, false, &[("b", 2.0)]).await;
    assert!((replica.metric("plimsoll_feed_oversized_values_total") - 2.0).abs() < f64::EPSILON);
}
