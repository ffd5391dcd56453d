//! Status of a prediction: times of writes, and reasons.

use super::*;

#[test]
fn a_young_history_says_how_much_there_is_and_how_much_is_needed() {
    let now = START + 5 * DAY;
    let too_little = |age, needed| format!("too little history: {age} of at least {needed}");
    for (age, expected) in [
        (None, "there are no samples of sum(load)".to_owned()),
        (Some(5 * HOUR), too_little("4h", "2d 1h")),
        (Some(DAY + 5 * HOUR), too_little("1d 4h", "2d")),
    ] {
        let mut fixture = Fixture::new(own(), now);
        fixture.read(now, age.map_or(i64::MAX, |age| now - age));
        fixture.write(now).expect("a first status");
        let expected = format!("not all metric predicted: resource.cpu: {expected}");
        fixture.check((false, &expected));
        fixture.check_read(ConditionStatus::True, now);
        let status = fixture.written.as_ref().expect("it is written");
        let metric = &status.prediction_metrics[0];
        assert!(!metric.ready && metric.prediction.is_empty());
    }
}

#[test]
fn an_expression_without_samples_that_is_confined_to_the_namespace_says_so() {
    let mut fixture = Fixture::new(own(), START);
    let expression = Expression {
        text: r#"sum(load{namespace="shop"})"#.to_owned(),
        confined_by: Some(r#"namespace="shop""#.to_owned()),
    };
    let metric = ForecastSpec {
        query: Ok(Query::Expression(expression)),
        ..fixture.metric.clone()
    };
    fixture.pipeline = MetricPipeline::new("u-1", metric, WINDOW, INTERVALS, at(START));
    fixture.read(START, i64::MAX);
    fixture.write(START).expect("a first status");
    let expected = "not all metric predicted: resource.cpu: there are no samples of sum(load{namespace=\"shop\"}); only series with \
                    namespace=\"shop\" are read, unless the namespace has the label plimsoll.dev/prediction-query-scope=cluster";
    fixture.check((false, expected));
}

#[test]
fn a_status_is_written_when_it_no_longer_holds_and_not_before() {
    let mut now = START + 10 * DAY;
    let (step_seconds, quantile) = (300, Quantile::P90);
    let mut fixture = Fixture::new(
        Method::Plimsoll {
            step_seconds,
            quantile,
        },
        now,
    );
    fixture.read(now, START);
    let first = fixture.write(now).expect("a first status");
    assert_eq!(first.event, None, "that all is well goes without saying");
    fixture.check((true, ""));
    assert_eq!(fixture.write(now), None);
    let mut writes = 0;
    for _ in 0..288 {
        now += 300;
        fixture.read(now, START);
        writes += usize::from(fixture.write(now).is_some());
        let status = fixture.written.as_ref().expect("it is written");
        let samples = &status.prediction_metrics[0].prediction[0].samples;
        let last = samples.last().map(|last| last.timestamp);
        assert!(last >= Some(now + i64::from(WINDOW) - 300));
    }
    assert!((20..150).contains(&writes), "{writes} writes a day");
}

#[test]
fn an_unreadable_history_is_reported_and_the_last_forecast_stays_as_far_as_it_reaches() {
    let now = START + 10 * DAY;
    let mut fixture = Fixture::new(own(), now);
    fixture.read(now, START);
    fixture.write(now);
    fixture.pipeline.fail("connection refused", at(now + 300));
    assert_eq!(fixture.pipeline.due(), Some(now + 301));
    let update = fixture.write(now + 300).expect("the condition changes");
    assert!(update.event.is_some_and(|(is_bad, ..)| is_bad));
    let holds_on = "resource.cpu: the history cannot be read: connection refused; the forecast of 2026-01-11T00:00:00Z stays valid until its window ends";
    fixture.check((true, holds_on));
    let later = now + HOUR / 2;
    fixture.pipeline.fail("connection refused", at(later));
    assert_eq!(
        fixture.write(later),
        None,
        "it ages, and is not written anew"
    );
    // It does not reach far enough any more.
    fixture.write(now + 2 * HOUR).expect("an update");
    let unread =
        "not all metric predicted: resource.cpu: the history cannot be read: connection refused";
    fixture.check((false, unread));
    fixture.check_read(ConditionStatus::False, now + 300);
    fixture.read(now + 3 * HOUR, START);
    fixture.write(now + 3 * HOUR).expect("it is there again");
    fixture.check((true, ""));
    fixture.check_read(ConditionStatus::True, now + 3 * HOUR);
}

#[test]
fn a_new_leader_that_cannot_read_continues_with_the_written_forecast() {
    let now = START + 10 * DAY;
    let mut before = Fixture::new(own(), now);
    before.read(now, START);
    before.write(now);
    let mut after = Fixture::new(own(), now + 300);
    after.written = before.written;
    after.pipeline.fail("connection refused", at(now + 300));
    let metric = after.metric_forecast(now + 300);
    assert!(metric.is_ready);
    let (published, made) = (&metric.series[0], first_series(&before.pipeline));
    // Written values have five decimals.
    let is_near = |(published, made): ((i64, f64), (i64, f64))| {
        published.0 == made.0 && (published.1 - made.1).abs() < 1e-5
    };
    assert_eq!(published.values.len(), made.values.len());
    assert!(
        published.points().zip(made.points()).all(is_near),
        "{published:?}"
    );
    after.write(now + 300).expect("the condition changes");
    let holds_on = "resource.cpu: the history cannot be read: connection refused; the previous forecast stays valid until its window ends";
    after.check((true, holds_on));
    assert!(!after.metric_forecast(now + 2 * HOUR).is_ready);
}
