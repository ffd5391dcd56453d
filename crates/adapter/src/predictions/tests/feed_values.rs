//! Values of the feed, and the clocks of predictions and watches.

use super::*;

/// A feed with a forecast of an object from now on, every minute; whether it is connected.
fn from_feed(uid: &str, values: Vec<f64>, reason: &str, is_heard: bool) -> Subscription<Forecast> {
    let is_ready = !values.is_empty();
    let series = ForecastSeries {
        first_second: now().as_second(),
        step_seconds: 60,
        values,
        ..ForecastSeries::default()
    };
    let metric = MetricForecast {
        identifier: "resource.cpu".to_owned(),
        is_ready,
        reason: reason.to_owned(),
        series: if is_ready { vec![series] } else { Vec::new() },
        ..MetricForecast::default()
    };
    let value = Arc::new(Forecast {
        uid: uid.to_owned(),
        metrics: vec![metric],
        ..Forecast::default()
    });
    let feed = Received {
        value,
        term: 1,
        revision: 1,
        changed_at: now(),
    };
    let stale_since = (!is_heard).then(Instant::now);
    Subscription::from_leaders(vec![LeaderState {
        values: [(uid.to_owned(), feed)].into(),
        stale_since,
    }])
}

fn check_feed(name: &str, subscription: Subscription<Forecast>, found: Result<&str, &str>) {
    let selector =
        format!("targetKind=Deployment,targetName={name},resourceIdentifier=resource.cpu");
    let request = ExternalMetricRequest::new("shop", "crane_autoscaling_prediction", &selector);
    let mut predictions = expected(shop());
    predictions.feed = Some(watch::channel(subscription).1);
    let answer = wait(predictions.external(&request, &Flow::default(), now()));
    let answer = answer.map(|values| {
        values
            .expect("it is ours")
            .iter()
            .map(|value| value.value.to_string())
            .collect()
    });
    let found = found.map(str::to_owned).map_err(|why| {
        StatusError::NotFound(format!(
            "the server could not find the metric crane_autoscaling_prediction: resource.cpu of Deployment shop/{name}: {why}"
        ))
    });
    assert_eq!(answer, found);
}

#[test]
fn predictions_and_schedules_use_the_api_servers_time_and_watches_the_machines() {
    let clock = ApiServerClock::default();
    let hours = |hours| now() + SignedDuration::from_hours(hours);
    let answer = |metric: &str, own: Timestamp| {
        let mut view = shop();
        let window = cron("0 11 * * *", "0 13 * * *", 7);
        view.cron_schedules
            .apply(Arc::new(schedule("web", "Deployment", vec![window], true)));
        let stale_since = Some(own - SignedDuration::from_mins(4));
        for resource in [Resource::Ehpas, Resource::Predictions] {
            let freshness = Freshness {
                synced: true,
                stale_since,
                ..Freshness::default()
            };
            view.freshness.insert(resource, freshness);
        }
        let mut expected = expected(view);
        expected.clock = clock.clone();
        let is_cron = metric.ends_with("cron");
        let identifier = if is_cron { "cron" } else { "resource.cpu" };
        let selector = format!("{OF_WEB}{identifier}");
        let request = ExternalMetricRequest::new("shop", metric, &selector);
        let values = wait(expected.external(&request, &Flow::default(), own));
        values
            .ok()
            .map(|values| values.expect("it is ours")[0].value.to_string())
    };
    let both = |own| {
        ["crane_autoscaling_cron", "crane_autoscaling_prediction"].map(|metric| answer(metric, own))
    };
    let right = [Some("7".to_owned()), Some("2900m".to_owned())];
    assert_eq!(both(now()), right);
    assert_eq!(
        both(hours(5)),
        [Some("2".to_owned()), None],
        "the API server's time is unknown"
    );
    for ahead in [-5, 5, 24 * 200] {
        clock.observe(now().into(), hours(ahead).into(), Instant::now());
        assert_eq!(both(hours(ahead)), right, "{ahead}");
    }
}

#[test]
fn the_feed_precedes_the_status_while_it_is_connected_and_valid() {
    let ready = |uid, is_heard| from_feed(uid, vec![4.5; 121], "", is_heard);
    let unready = |uid| from_feed(uid, vec![], "too little history", true);
    check_feed("web", ready("web", true), Ok("4500m"));
    check_feed("web", ready("web", false), Ok("2900m"));
    check_feed("web", ready("another", true), Ok("2900m"));
    check_feed("web", unready("web"), Ok("2900m"));
    check_feed("old", ready("old", true), Ok("4500m"));
    let why = "the TimeSeriesPrediction is not ready: too little history";
    check_feed("old", unready("old"), Err(why));
    let why = "the TimeSeriesPrediction ended its last whole window 3600s ago, limit 300s";
    check_feed("old", ready("old", false), Err(why));
}
