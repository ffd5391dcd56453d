//! From histories to what is told and written, by the hour: too young, warm, unread, and back.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use api::condition::Holds;
use api::prediction::{HISTORY_READ, TimeSeriesPredictionStatus};
use cluster::ObjectKey;
use feed::Forecast;
use forecast::crane;
use jiff::Timestamp;
use prometheus::Registry;
use proptest::prelude::*;
use serde_json::json;
use sources::prometheus::Excess;

use super::access::ObjectAccess;
use super::job::{Annotations, Job, Method, MetricJob, Quantile};
use super::model::Labels;
use super::outlook::Outlook;
use super::query::Query;
use super::status::{Change, change};
use super::study::Studies;
use super::track::{Found, Pace, Span, Track};
use crate::metrics::Metrics;

const DAY: i64 = 86_400;
const HOUR: i64 = 3600;
const WINDOW: u32 = 3600;
/// Midnight.
const START: i64 = 1_767_225_600;
const PACE: Pace = Pace { read_seconds: 300, refit_seconds: 12 * HOUR };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

/// Twice as much at noon as on average, and nothing at midnight.
fn load(second: i64) -> f64 {
    10.0 - 10.0 * (TAU * second.rem_euclid(DAY) as f64 / DAY as f64).cos()
}

/// What Prometheus would answer, if the metric was measured from `since` on.
fn answer(span: Span, since: i64) -> Found {
    let step = i64::from(span.step);
    let seconds = (0..=(span.last - span.first) / step).map(|number| span.first + number * step);
    let samples: Vec<_> = seconds.filter(|second| *second >= since).map(|second| (second, load(second))).collect();
    if samples.is_empty() { Found::new() } else { Found::from([(Labels::new(), samples)]) }
}

fn own() -> Method {
    Method::Own { step_seconds: 300, quantile: Quantile::Expected }
}

struct Stage {
    track: Track,
    job: Arc<Job>,
    written: Option<TimeSeriesPredictionStatus>,
}

impl Stage {
    fn new(method: Method, now: i64) -> Self {
        let metric = MetricJob {
            identifier: "resource.cpu".to_owned(),
            query: Ok(Query::Expression("sum(load)".to_owned())),
            method,
            note: None,
        };
        let job = Job {
            key: ObjectKey::new("shop", "ehpa-web"),
            uid: "u-1".to_owned(),
            generation: 3,
            window_seconds: WINDOW,
            metrics: vec![metric.clone()],
        };
        Self { track: Track::new("u-1", metric, WINDOW, PACE, at(now)), job: Arc::new(job), written: None }
    }

    /// Reads the history of a metric that was measured from `since` on; gives how many points were asked for.
    fn read(&mut self, now: i64, since: i64) -> i64 {
        let span = self.track.span(at(now));
        self.track.take(span, answer(span, since), at(now));
        while let Some(study) = self.track.study() {
            study.run();
        }
        self.track.learn(at(now));
        (span.last - span.first) / i64::from(span.step) + 1
    }

    fn forecast(&self, now: i64) -> Forecast {
        self.outlook().forecast(self.written.as_ref(), at(now))
    }

    fn outlook(&self) -> Outlook {
        Outlook { job: Arc::clone(&self.job), metrics: vec![self.track.outlook().clone()] }
    }

    /// Writes what is to be written, and gives it.
    fn write(&mut self, now: i64) -> Option<Change> {
        let written = change(&self.outlook(), &self.forecast(now), self.written.as_ref(), at(now));
        self.written = written.as_ref().map(|change| change.status.clone()).or_else(|| self.written.take());
        written
    }

    /// Whether it says that the history was read, and since when.
    fn check_read(&self, holds: Holds, since: i64) {
        let mut conditions = self.written.iter().flat_map(|status| &status.conditions);
        let condition = conditions.find(|condition| condition.kind == HISTORY_READ).expect("a condition");
        assert_eq!((condition.status, condition.last_transition_time.0), (holds, at(since)), "{}", condition.message);
    }

    /// Whether the object is ready, and what it says.
    fn check(&self, expected: (bool, &str)) {
        let condition = self.written.as_ref().and_then(|status| status.conditions.first()).expect("a condition");
        assert_eq!((condition.status == Holds::True, condition.message.as_str()), expected);
    }
}

#[test]
fn a_warm_history_is_forecast_over_two_windows_and_only_new_samples_are_read() {
    let now = START + 10 * DAY + 6 * HOUR + 60;
    let mut stage = Stage::new(own(), now);
    assert_eq!(stage.read(now, START), 14 * 288 + 1);
    let forecast = stage.forecast(now);
    let metric = &forecast.metrics[0];
    assert!(metric.is_ready && metric.reason.is_empty(), "{}", metric.reason);
    let points: Vec<_> = metric.series[0].points().collect();
    assert_eq!((points[0].0, points.last().map(|(last, _)| *last)), (now - 60, Some(now - 60 + 2 * HOUR)));
    for (second, value) in &points {
        // A value is the mean of five minutes.
        let expected = load(second - second.rem_euclid(300) + 150);
        assert!((value - expected).abs() < 0.5, "{value} for {expected} at {second}");
    }
    assert!(points.last() > points.first() && points.windows(2).all(|pair| pair[0].1 <= pair[1].1), "the load rises");
    assert_eq!(stage.read(now + 300, START), 2, "the last one again, and the new one");
    assert_eq!(stage.read(now + 2 * HOUR, START), 24, "what was missed meanwhile");
    assert!(stage.track.bytes() > 10_000);
}

#[test]
fn what_is_heard_of_usage_round_by_round_becomes_a_history() {
    let mut stage = Stage::new(own(), START);
    let rounds = (2 * DAY + 4 * HOUR) / 300;
    for round in 0..rounds {
        // Nothing is measured now and then.
        let sample = (round % 50 != 0).then(|| load(START + round * 300));
        stage.track.hear(at(START + round * 300 + 7), sample, at(START + round * 300 + 8));
    }
    let forecast = stage.forecast(START + rounds * 300);
    assert!(forecast.metrics[0].is_ready, "{}", forecast.metrics[0].reason);
}

#[test]
fn after_a_clock_that_was_ahead_all_is_read_anew() {
    let now = START + 10 * DAY + 6 * HOUR + 60;
    let mut stage = Stage::new(own(), now);
    stage.read(now, START);
    let expected = stage.forecast(now);
    for ahead in [HOUR, 3 * DAY, 4000 * DAY] {
        stage.read(now + ahead, START);
        assert!(stage.track.is_due(now), "{ahead}");
        assert_eq!(stage.read(now, START), 14 * 288 + 1, "{ahead}");
        assert_eq!(stage.forecast(now).metrics, expected.metrics, "{ahead}");
        assert!(!stage.track.is_due(now) && stage.track.is_due(now + 300 + 90), "{ahead}");
    }
}

#[test]
fn a_clock_that_was_put_back_a_little_takes_nothing_of_what_was_heard() {
    for step_seconds in [300, 3600] {
        let mut stage = Stage::new(Method::Own { step_seconds, quantile: Quantile::Expected }, START);
        let rounds = (3 * DAY + 4 * HOUR) / 300;
        for round in 0..rounds {
            let heard_at = START + round * 300;
            stage.track.hear(at(heard_at), Some(load(heard_at)), at(heard_at));
            stage.track.hear(at(heard_at - 5), Some(load(heard_at)), at(heard_at - 5));
        }
        let forecast = stage.forecast(START + rounds * 300);
        assert!(forecast.metrics[0].is_ready, "{step_seconds}: {}", forecast.metrics[0].reason);
    }
}

#[test]
fn a_window_of_days_is_covered_by_the_day_ahead_which_repeats() {
    let now = START + 10 * DAY + 60;
    let metric = Stage::new(own(), now).job.metrics[0].clone();
    for window in [12 * HOUR, DAY, 2 * DAY, 7 * DAY] {
        let mut track = Track::new("u-1", metric.clone(), u32::try_from(window).expect("a week"), PACE, at(now));
        let span = track.span(at(now));
        track.take(span, answer(span, START), at(now));
        let series = &track.outlook().made.as_ref().expect("it is forecast").series[0];
        let points: Vec<_> = series.points().collect();
        assert!(points.last().is_some_and(|(last, _)| *last > now + 2 * window - 300), "{window}");
        for (second, value) in points {
            let expected = load(second - second.rem_euclid(300) + 150);
            assert!((value - expected).abs() < 0.5, "{value} for {expected} at {second}");
        }
    }
}

#[test]
fn a_young_history_says_how_much_there_is_and_how_much_is_needed() {
    let now = START + 5 * DAY;
    for (age, expected) in [
        (None, "there are no samples of sum(load)"),
        (Some(5 * HOUR), "too little history: there is 4h of it, and 2d 1h is needed"),
        (Some(DAY + 5 * HOUR), "too little history: there is 1d 4h of it, and 2d is needed"),
    ] {
        let mut stage = Stage::new(own(), now);
        stage.read(now, age.map_or(i64::MAX, |age| now - age));
        stage.write(now).expect("a first status");
        stage.check((false, &format!("not all metric predicted: resource.cpu: {expected}")));
        stage.check_read(Holds::True, now);
        let status = stage.written.as_ref().expect("it is written");
        assert!(!status.prediction_metrics[0].ready && status.prediction_metrics[0].prediction.is_empty());
    }
}

#[test]
fn a_status_is_written_when_it_no_longer_holds_and_not_before() {
    let mut now = START + 10 * DAY;
    let mut stage = Stage::new(Method::Own { step_seconds: 300, quantile: Quantile::P90 }, now);
    stage.read(now, START);
    let first = stage.write(now).expect("a first status");
    assert_eq!(first.news, None, "that all is well goes without saying");
    stage.check((true, ""));
    assert_eq!(stage.write(now), None);
    let mut writes = 0;
    for _ in 0..288 {
        now += 300;
        stage.read(now, START);
        writes += usize::from(stage.write(now).is_some());
        let status = stage.written.as_ref().expect("it is written");
        let samples = &status.prediction_metrics[0].prediction[0].samples;
        assert!(samples.last().is_some_and(|last| last.timestamp >= now + i64::from(WINDOW) - 300));
    }
    assert!((20..150).contains(&writes), "{writes} writes a day");
}

#[test]
fn what_cannot_be_read_is_said_and_what_was_forecast_holds_on_as_far_as_it_reaches() {
    let now = START + 10 * DAY;
    let mut stage = Stage::new(own(), now);
    stage.read(now, START);
    stage.write(now);
    stage.track.fail("nobody answers", at(now + 300));
    assert_eq!(stage.track.due(), Some(now + 301));
    let change = stage.write(now + 300).expect("the condition changes");
    assert_eq!(change.news.as_ref().map(|(is_bad, ..)| *is_bad), Some(true));
    let holds_on = "resource.cpu: the history cannot be read: nobody answers; what was forecast at 2026-01-11T00:00:00Z holds on for a while";
    stage.check((true, holds_on));
    stage.track.fail("nobody answers", at(now + HOUR / 2));
    assert_eq!(stage.write(now + HOUR / 2), None, "it ages, and is not written anew");
    stage.write(now + 2 * HOUR).expect("it does not reach far enough any more");
    stage.check((false, "not all metric predicted: resource.cpu: the history cannot be read: nobody answers"));
    stage.check_read(Holds::False, now + 300);
    stage.read(now + 3 * HOUR, START);
    stage.write(now + 3 * HOUR).expect("it is there again");
    stage.check((true, ""));
    stage.check_read(Holds::True, now + 3 * HOUR);
}

#[test]
fn a_new_leader_that_cannot_read_goes_on_with_what_is_written() {
    let now = START + 10 * DAY;
    let mut before = Stage::new(own(), now);
    before.read(now, START);
    before.write(now);
    let mut after = Stage::new(own(), now + 300);
    after.written = before.written;
    after.track.fail("nobody answers", at(now + 300));
    let forecast = after.forecast(now + 300);
    assert!(forecast.metrics[0].is_ready);
    let (told, made) = (&forecast.metrics[0].series[0], &before.track.outlook().made.as_ref().expect("made").series[0]);
    // What is written has five decimals.
    let is_near = |(told, made): ((i64, f64), (i64, f64))| told.0 == made.0 && (told.1 - made.1).abs() < 1e-5;
    assert!(told.values.len() == made.values.len() && told.points().zip(made.points()).all(is_near), "{told:?}");
    after.write(now + 300).expect("the condition changes");
    after.check((
        true,
        "resource.cpu: the history cannot be read: nobody answers; what was forecast before holds on for a while",
    ));
    assert!(!after.forecast(now + 2 * HOUR).metrics[0].is_ready);
}

#[test]
fn cranes_predictor_says_what_it_says_there() {
    let now = START + 5 * DAY + 40;
    let Method::Dsp { dsp, .. } = of_crane() else { panic!("it is Crane's") };
    let mut stage = Stage::new(of_crane(), now);
    stage.read(now, START);
    let span = Span { first: START + 2 * DAY - HOUR, last: START + 5 * DAY, step: 300 };
    let samples = answer(span, START).remove(&Labels::new()).expect("samples");
    let expected = dsp.forecast(&samples).expect("it is periodic");
    let forecast = stage.forecast(now);
    let series = &forecast.metrics[0].series[0];
    assert_eq!(series.first_second, expected.first_second);
    let first: Vec<f64> = expected.values().take(series.values.len()).collect();
    assert_eq!((series.values.len(), &series.values), (24, &first));
}

fn of_crane() -> Method {
    let dsp = crane::Dsp { step_seconds: 300, ..crane::Dsp::default() };
    Method::Dsp { dsp, history_seconds: u32::try_from(3 * DAY).expect("three days") }
}

#[tokio::test]
async fn our_own_forecasts_go_on_while_a_slow_series_is_looked_at() {
    let now = START + 5 * DAY + 40;
    let metrics = Metrics::register(&Registry::new(), Vec::new()).expect("metrics").forecasts;
    let studies = Studies::new(NonZero::<usize>::MIN, metrics);
    let (go_on, told) = std::sync::mpsc::channel::<()>();
    let slow = move || told.recv().expect("it goes on");
    studies.run(studies.place().expect("a place"), slow);
    let mut waiting = [Stage::new(of_crane(), now), Stage::new(of_crane(), now)];
    for stage in &mut waiting {
        let span = stage.track.span(at(now));
        stage.track.take(span, answer(span, START), at(now));
    }
    studies.begin(waiting.iter_mut().map(|stage| &mut stage.track));

    let mut own = Stage::new(own(), now);
    for later in [0, 300, 600] {
        own.read(now + later, START);
        studies.begin([&mut own.track].into_iter());
        let metric = &own.forecast(now + later).metrics[0];
        assert_eq!((metric.is_ready, metric.made_at), (true, Some(at(now + later))), "{}", metric.reason);
        for stage in &mut waiting {
            stage.track.learn(at(now + later));
            let outlook = Outlook { job: Arc::clone(&stage.job), metrics: vec![stage.track.outlook().clone()] };
            assert!(outlook.is_known(), "nobody waits until it is told");
            let metric = &stage.forecast(now + later).metrics[0];
            assert_eq!((metric.is_ready, metric.reason.as_str()), (false, "its history is being looked at"));
            assert_eq!(outlook.history().0, Holds::Unknown);
        }
    }

    go_on.send(()).expect("somebody waits");
    while waiting.iter().any(|stage| !stage.forecast(now).metrics[0].is_ready) {
        studies.ended().await;
        studies.begin(waiting.iter_mut().map(|stage| &mut stage.track));
        for stage in &mut waiting {
            stage.track.learn(at(now));
        }
    }
}

#[test]
fn while_a_history_is_looked_at_what_was_written_holds_on_and_what_cannot_be_read_is_still_said() {
    let now = START + 5 * DAY + 40;
    let mut before = Stage::new(of_crane(), now);
    before.read(now, START);
    before.write(now).expect("a first status");
    let mut after = Stage::new(of_crane(), now + 60);
    after.written = before.written;
    let span = after.track.span(at(now + 60));
    after.track.take(span, answer(span, START), at(now + 60));
    let metric = &after.forecast(now + 60).metrics[0];
    assert_eq!((metric.is_ready, metric.reason.as_str()), (true, ""));
    let study = after.track.study().expect("it is to be looked at");
    after.track.fail("nobody answers", at(now + 90));
    study.run();
    after.track.learn(at(now + 90));
    let metric = &after.forecast(now + 90).metrics[0];
    assert!(metric.is_ready && metric.reason.contains("nobody answers"), "{}", metric.reason);
    assert_eq!(metric.made_at, Some(at(now + 90)));
    // A study that is lost is said, and made again after a while.
    let mut lost = Stage::new(of_crane(), now);
    let span = lost.track.span(at(now));
    lost.track.take(span, answer(span, START), at(now));
    drop(lost.track.study());
    lost.track.learn(at(now));
    assert_eq!(lost.forecast(now).metrics[0].reason, "the predictor failed");
    lost.read(now + 2 * HOUR, START);
    assert!(lost.forecast(now + 2 * HOUR).metrics[0].is_ready);
}

fn percentile_of_each_second() -> Method {
    let settings = json!({
        "sampleInterval": "1s", "historyLength": "13h", "aggregated": false, "histogram": {"halfLife": "24h"},
    });
    let settings = serde_json::from_value(settings).expect("settings");
    let (method, note) = super::crane::percentile(Some(&settings)).expect("a method");
    assert_eq!((method.step_seconds(), note), (1, None));
    method
}

#[test]
fn a_forecast_of_a_week_by_the_second_is_kept_in_few_values() {
    let now = START + 10 * DAY + 60;
    let window = 7 * DAY;
    let metric = MetricJob { method: percentile_of_each_second(), ..Stage::new(own(), now).job.metrics[0].clone() };
    let mut track = Track::new("u-1", metric, u32::try_from(window).expect("a week"), PACE, at(now));
    let span = track.span(at(now));
    track.take(span, answer(span, START), at(now));
    let series = &track.outlook().made.as_ref().expect("it is forecast").series[0];
    assert!((720..=1440).contains(&series.values.len()), "{} values", series.values.len());
    let last = series.points().last().map(|(last, _)| last);
    assert!(last.is_some_and(|last| last > now + 2 * window - 2000), "{last:?}");
    let kept = series.values.len() * size_of::<f64>();
    assert!((kept..50_000).contains(&track.bytes()), "{} bytes", track.bytes());
}

#[test]
fn a_long_annotation_makes_a_short_reason() {
    let long = "x".repeat(200_000);
    let annotations = BTreeMap::from([
        ("plimsoll.dev/forecast".to_owned(), long.clone()),
        ("plimsoll.dev/forecast-quantile".to_owned(), long.clone()),
    ]);
    let dsp = json!({"algorithmType": "dsp", "dsp": {"sampleInterval": &long}});
    let metrics = (0..20).map(|number| {
        json!({"resourceIdentifier": format!("m-{number}"), "type": "ResourceQuery", "resourceQuery": &long, "algorithm": dsp})
    });
    let object = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {
        "predictionMetrics": metrics.collect::<Vec<_>>(), "targetRef": {"name": &long}, "predictionWindowSeconds": 3600,
    }});
    let object = serde_json::from_value(object).expect("an object");
    let annotations = Annotations { own: &annotations, owner: None };
    let job = Job::new(ObjectKey::new("shop", "web"), &object, annotations, &ObjectAccess::to_namespace("shop"));
    let metrics =
        job.metrics.iter().map(|metric| Track::new("u-1", metric.clone(), WINDOW, PACE, at(START)).outlook().clone());
    let outlook = Outlook { metrics: metrics.collect(), job: Arc::new(job) };
    for metric in outlook.forecast(None, at(START)).metrics {
        assert!((100..1000).contains(&metric.reason.len()), "{}", metric.reason.len());
        assert!(
            metric.reason.contains("forecast-quantile") && metric.reason.contains("sampleInterval"),
            "{}",
            metric.reason
        );
    }
}

#[test]
fn a_long_history_is_read_in_parts_and_forecast_after_the_last() {
    let now = START + 20 * DAY + 60;
    let mut whole = Stage::new(own(), now);
    whole.read(now, START);
    let mut stage = Stage::new(own(), now);
    let span = stage.track.span(at(now));
    let (mut parts, mut next) = (0, span.first);
    loop {
        let part = stage.track.part(at(now));
        let points = (part.span.last - part.span.first) / 300 + 1;
        assert!(part.span.first == next && points <= 2000, "{part:?}");
        stage.track.take_part(part, answer(part.span, START), at(now));
        (parts, next) = (parts + 1, part.span.last);
        if part.is_last {
            break;
        }
        let outlook = stage.outlook();
        assert!(outlook.is_known() && outlook.metrics[0].made.is_none() && stage.track.is_due(now));
        assert_eq!(outlook.history(), (Holds::Unknown, "HistoryAwaited", String::new()));
    }
    assert_eq!((parts, next), (3, span.last));
    assert!(!stage.track.is_due(now));
    assert_eq!(stage.forecast(now).metrics, whole.forecast(now).metrics);
}

#[test]
fn what_is_too_slow_is_asked_for_in_smaller_parts_and_then_less_often() {
    let now = START + 20 * DAY + 60;
    let points = |track: &Track, now: i64| {
        let span = track.part(at(now)).span;
        (span.last - span.first) / i64::from(span.step) + 1
    };
    for (excess, least) in [(Excess::Time, 500), (Excess::Size, 62)] {
        let mut track = Stage::new(own(), now).track;
        let mut asked = vec![points(&track, now)];
        while track.asks_for_less(track.part(at(now)), excess, at(now)) {
            asked.push(points(&track, now));
        }
        assert_eq!((asked[0], asked[1], asked.last().copied()), (2000, 1000, Some(least)), "{excess:?}");
        track.fail_after("it takes too long", Duration::from_secs(65), at(now));
        assert_eq!(track.due(), Some(now + 4 * 65));
        assert_eq!(points(&track, now), least, "it begins with what is left");
        while !track.part(at(now)).is_last {
            let part = track.part(at(now));
            track.take_part(part, answer(part.span, START), at(now));
        }
        track.take(track.span(at(now)), Found::new(), at(now));
        assert_eq!(points(&track, now + 10 * DAY), 2000, "what was slow once may be quick later");
    }
}

#[test]
fn a_series_with_long_labels_is_not_kept() {
    let now = START + 10 * DAY;
    let mut stage = Stage::new(own(), now);
    let span = stage.track.span(at(now));
    let samples = answer(span, START).remove(&Labels::new()).expect("samples");
    let labels = BTreeMap::from([("path".to_owned(), "x".repeat(100_000))]);
    stage.track.take(span, Found::from([(labels, samples)]), at(now));
    let metric = &stage.forecast(now).metrics[0];
    assert!(!metric.is_ready && metric.reason.contains("bytes of labels"), "{}", metric.reason);
    assert!(stage.track.bytes() < 1000, "{} bytes", stage.track.bytes());
}

#[test]
fn several_series_are_told_apart_and_too_many_are_refused() {
    let now = START + 10 * DAY;
    for (count, is_ready) in [(2, true), (11, false)] {
        let mut stage = Stage::new(own(), now);
        let span = stage.track.span(at(now));
        let samples = answer(span, START).remove(&Labels::new()).expect("samples");
        let found = (0..count).map(|pod| (BTreeMap::from([("pod".to_owned(), format!("web-{pod}"))]), samples.clone()));
        stage.track.take(span, found.collect(), at(now));
        let forecast = stage.forecast(now);
        assert_eq!(forecast.metrics[0].is_ready, is_ready, "{count}: {}", forecast.metrics[0].reason);
        let labels: Vec<_> = forecast.metrics[0].series.iter().filter_map(|series| series.labels.get("pod")).collect();
        assert_eq!(labels.first().map(|pod| pod.as_str()), Some("web-0"));
    }
}

proptest! {
    /// However reads fall, what is asked for is in order, of the step, never more than the history, and never skips a point.
    #[test]
    fn spans_are_in_order_and_leave_nothing_out(pauses in prop::collection::vec(1_i64..20 * DAY, 1..20), step in prop::sample::select(vec![60_u32, 300, 432])) {
        let mut now = START;
        let mut track = Stage::new(Method::Own { step_seconds: step, quantile: Quantile::P90 }, now).track;
        let mut last = None;
        for pause in pauses {
            now += pause;
            let span = track.span(at(now));
            prop_assert!(span.first <= span.last && span.last < now);
            prop_assert!(span.last - span.first <= 14 * DAY);
            prop_assert_eq!((span.last % i64::from(step), span.first % i64::from(step)), (0, 0));
            if let Some(last) = last {
                prop_assert!(span.first == last || span.last - span.first > 14 * DAY - i64::from(step));
            }
            last = Some(span.last);
            track.take(span, Found::new(), at(now));
            prop_assert!(track.due().is_some_and(|due| due > now));
        }
    }
}
