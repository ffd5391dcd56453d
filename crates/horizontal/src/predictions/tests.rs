//! From histories to published and written forecasts, by the hour: too short, complete, unreadable,
//! and readable again.

mod bounds;
mod dsp;
mod peak;
mod prediction_set;
mod reading;
mod status;

use std::f64::consts::TAU;
use std::sync::Arc;

use api::condition::ConditionStatus;
use api::prediction::{HISTORY_READ, TimeSeriesPredictionStatus};
use jiff::Timestamp;
use model::{Forecast, ForecastSeries, MetricForecast};
use view::ObjectKey;

use super::access::Expression;
use super::method::{Method, Quantile};
use super::model::Labels;
use super::pipeline::MetricPipeline;
use super::query::Query;
use super::result::PredictionResult;
use super::spec::{ForecastSpec, PredictionSpec};
use super::status::{StatusUpdate, status_update};
use super::{ReadIntervals, ReadRange, Samples, quoted, truncate};

const DAY: i64 = 86_400;
const HOUR: i64 = 3600;
const WINDOW: u32 = 3600;
/// Midnight.
const START: i64 = 1_767_225_600;
const INTERVALS: ReadIntervals = ReadIntervals {
    read_seconds: 300,
    refit_seconds: 12 * HOUR,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

/// Twice the mean at noon, and nothing at midnight.
fn load(second: i64) -> f64 {
    10.0 - 10.0 * (TAU * second.rem_euclid(DAY) as f64 / DAY as f64).cos()
}

/// Response of Prometheus, if the metric has samples from `since` on.
fn answer(range: ReadRange, since: i64) -> Samples {
    let step = i64::from(range.step);
    let seconds = (0..=(range.last - range.first) / step).map(|number| range.first + number * step);
    let samples: Vec<_> = seconds
        .filter(|second| *second >= since)
        .map(|second| (second, load(second)))
        .collect();
    if samples.is_empty() {
        Samples::new()
    } else {
        Samples::from([(Labels::new(), samples)])
    }
}

fn only_series(range: ReadRange) -> Vec<(i64, f64)> {
    let mut answer = answer(range, START);
    answer.remove(&Labels::new()).expect("samples")
}

/// Checks that a forecast is near the mean load of five minutes.
#[track_caller]
fn check_near((second, value): (i64, f64)) {
    let expected = load(second - second.rem_euclid(300) + 150);
    let is_near = (value - expected).abs() < 0.5;
    assert!(is_near, "{value} for {expected} at {second}");
}

/// A pipeline that has read the whole history.
fn warm_pipeline(metric: ForecastSpec, window: i64, now: i64) -> MetricPipeline {
    let window = u32::try_from(window).expect("a week");
    let mut pipeline = MetricPipeline::new("u-1", metric, window, INTERVALS, at(now));
    let range = pipeline.range(at(now));
    pipeline.append(range, answer(range, START), at(now));
    pipeline
}

fn first_series(pipeline: &MetricPipeline) -> &ForecastSeries {
    let forecasts = pipeline.result().forecasts.as_ref();
    &forecasts.expect("it is forecast").series[0]
}

fn own() -> Method {
    Method::Plimsoll {
        step_seconds: 300,
        quantile: Quantile::Expected,
    }
}

struct Fixture {
    pipeline: MetricPipeline,
    metric: ForecastSpec,
    spec: Arc<PredictionSpec>,
    written: Option<TimeSeriesPredictionStatus>,
}

impl Fixture {
    fn new(method: Method, now: i64) -> Self {
        let metric = ForecastSpec {
            identifier: "resource.cpu".to_owned(),
            query: Ok(Query::Expression(Expression {
                text: "sum(load)".to_owned(),
                confined_by: None,
            })),
            method,
            note: None,
        };
        let spec = PredictionSpec {
            key: ObjectKey::new("shop", "ehpa-web"),
            uid: "u-1".to_owned(),
            generation: 3,
            window_seconds: WINDOW,
        };
        let pipeline = MetricPipeline::new("u-1", metric.clone(), WINDOW, INTERVALS, at(now));
        Self {
            pipeline,
            metric,
            spec: Arc::new(spec),
            written: None,
        }
    }

    /// Reads the history of a metric with samples from `since` on. Returns the number of requested
    /// points.
    fn read(&mut self, now: i64, since: i64) -> i64 {
        let range = self.pipeline.range(at(now));
        self.pipeline.append(range, answer(range, since), at(now));
        while let Some(fit_task) = self.pipeline.fit_task() {
            fit_task.run();
        }
        self.pipeline.collect_fits(at(now));
        (range.last - range.first) / i64::from(range.step) + 1
    }

    fn forecast(&self, now: i64) -> Forecast {
        self.result().forecast(self.written.as_ref(), at(now))
    }

    fn metric_forecast(&self, now: i64) -> MetricForecast {
        self.forecast(now).metrics.remove(0)
    }

    /// Checks that the metric is forecast, or not, for a reason with this text.
    #[track_caller]
    fn check_forecast(&self, now: i64, is_ready: bool, reason: &str) {
        let metric = self.metric_forecast(now);
        assert_eq!(metric.is_ready, is_ready, "{}", metric.reason);
        assert!(metric.reason.contains(reason), "{}", metric.reason);
    }

    fn result(&self) -> PredictionResult {
        PredictionResult {
            spec: Arc::clone(&self.spec),
            metrics: vec![self.pipeline.result().clone()],
        }
    }

    /// Writes the status if it is outdated, and returns the update.
    fn write(&mut self, now: i64) -> Option<StatusUpdate> {
        let (result, forecast) = (self.result(), self.forecast(now));
        let update = status_update(&result, &forecast, self.written.as_ref(), at(now));
        if let Some(update) = &update {
            self.written = Some(update.status.clone());
        }
        update
    }

    #[track_caller]
    fn check_read(&self, current: ConditionStatus, since: i64) {
        let mut conditions = self.written.iter().flat_map(|status| &status.conditions);
        let condition = conditions.find(|condition| condition.kind == HISTORY_READ);
        let condition = condition.expect("a condition");
        let found = (condition.status, condition.last_transition_time.0);
        assert_eq!(found, (current, at(since)), "{}", condition.message);
    }

    #[track_caller]
    fn check(&self, expected: (bool, &str)) {
        let status = self.written.as_ref().expect("a status");
        let condition = &status.conditions[0];
        let is_ready = condition.status == ConditionStatus::True;
        assert_eq!((is_ready, condition.message.as_str()), expected);
    }
}

#[test]
fn a_warm_history_is_forecast_over_two_windows_and_only_new_samples_are_read() {
    let now = START + 10 * DAY + 6 * HOUR + 60;
    let mut fixture = Fixture::new(own(), now);
    assert_eq!(fixture.read(now, START), 14 * 288 + 1);
    let metric = fixture.metric_forecast(now);
    assert!(
        metric.is_ready && metric.reason.is_empty(),
        "{}",
        metric.reason
    );
    let points: Vec<_> = metric.series[0].points().collect();
    let [first, .., last] = points[..] else {
        panic!("{points:?}")
    };
    assert_eq!((first.0, last.0), (now - 60, now - 60 + 2 * HOUR));
    points.iter().copied().for_each(check_near);
    assert!(
        points.is_sorted_by(|a, b| a.1 <= b.1) && first < last,
        "the load rises"
    );
    // The last one again, and the new one.
    assert_eq!(fixture.read(now + 300, START), 2);
    // What was missed meanwhile.
    assert_eq!(fixture.read(now + 2 * HOUR, START), 24);
    assert!(fixture.pipeline.bytes() > 10_000);
}

#[test]
fn a_window_of_days_is_covered_by_the_day_ahead_which_repeats() {
    let now = START + 10 * DAY + 60;
    let metric = Fixture::new(own(), now).metric;
    for window in [12 * HOUR, DAY, 2 * DAY, 7 * DAY] {
        let pipeline = warm_pipeline(metric.clone(), window, now);
        let points: Vec<_> = first_series(&pipeline).points().collect();
        let last = points.last().map(|(last, _)| *last);
        assert!(last > Some(now + 2 * window - 300), "{window}");
        points.into_iter().for_each(check_near);
    }
}

#[test]
fn long_texts_are_cut_between_characters() {
    assert_eq!(quoted("a \"b\""), r#""a \"b\"""#);
    assert_eq!(quoted(&"ä".repeat(100)), format!("\"{}\"", "ä".repeat(100)));
    let cut = format!("\"{}\"...", "ä".repeat(100));
    assert_eq!(quoted(&"ä".repeat(101)), cut);
    assert_eq!(truncate("äöü", 2), "äö");
}
