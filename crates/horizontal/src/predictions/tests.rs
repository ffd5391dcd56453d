//! From histories to published and written forecasts, by the hour: too short, complete, unreadable,
//! and readable again.

mod bounds;
mod dsp;
mod peak;
mod prediction_set;
mod reading;
mod written;

use std::f64::consts::TAU;
use std::sync::Arc;

use api::condition::ConditionStatus;
use api::prediction::{HISTORY_READ, TimeSeriesPredictionStatus};
use jiff::Timestamp;
use model::Forecast;
use view::ObjectKey;

use super::access::Expression;
use super::method::{Method, Quantile};
use super::model::Labels;
use super::pipeline::MetricPipeline;
use super::query::Query;
use super::read::{ReadIntervals, ReadRange, Samples};
use super::result::PredictionResult;
use super::spec::{ForecastSpec, PredictionSpec};
use super::status::{StatusUpdate, status_update};

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

    fn result(&self) -> PredictionResult {
        PredictionResult {
            spec: Arc::clone(&self.spec),
            metrics: vec![self.pipeline.result().clone()],
        }
    }

    /// Writes the status if it is outdated, and returns the update.
    fn write(&mut self, now: i64) -> Option<StatusUpdate> {
        let written = status_update(
            &self.result(),
            &self.forecast(now),
            self.written.as_ref(),
            at(now),
        );
        self.written = written
            .as_ref()
            .map(|status_update| status_update.status.clone())
            .or_else(|| self.written.take());
        written
    }

    /// Checks the condition `HistoryRead`.
    fn check_read(&self, current: ConditionStatus, since: i64) {
        let mut conditions = self.written.iter().flat_map(|status| &status.conditions);
        let condition = conditions
            .find(|condition| condition.kind == HISTORY_READ)
            .expect("a condition");
        assert_eq!(
            (condition.status, condition.last_transition_time.0),
            (current, at(since)),
            "{}",
            condition.message
        );
    }

    /// Checks the condition `Ready`.
    fn check(&self, expected: (bool, &str)) {
        let condition = self
            .written
            .as_ref()
            .and_then(|status| status.conditions.first())
            .expect("a condition");
        assert_eq!(
            (
                condition.status == ConditionStatus::True,
                condition.message.as_str()
            ),
            expected
        );
    }
}

#[test]
fn a_warm_history_is_forecast_over_two_windows_and_only_new_samples_are_read() {
    let now = START + 10 * DAY + 6 * HOUR + 60;
    let mut fixture = Fixture::new(own(), now);
    assert_eq!(fixture.read(now, START), 14 * 288 + 1);
    let forecast = fixture.forecast(now);
    let metric = &forecast.metrics[0];
    assert!(
        metric.is_ready && metric.reason.is_empty(),
        "{}",
        metric.reason
    );
    let points: Vec<_> = metric.series[0].points().collect();
    assert_eq!(
        (points[0].0, points.last().map(|(last, _)| *last)),
        (now - 60, Some(now - 60 + 2 * HOUR))
    );
    for (second, value) in &points {
        // A value is the mean of five minutes.
        let expected = load(second - second.rem_euclid(300) + 150);
        assert!(
            (value - expected).abs() < 0.5,
            "{value} for {expected} at {second}"
        );
    }
    assert!(
        points.last() > points.first() && points.windows(2).all(|pair| pair[0].1 <= pair[1].1),
        "the load rises"
    );
    assert_eq!(
        fixture.read(now + 300, START),
        2,
        "the last one again, and the new one"
    );
    assert_eq!(
        fixture.read(now + 2 * HOUR, START),
        24,
        "what was missed meanwhile"
    );
    assert!(fixture.pipeline.bytes() > 10_000);
}

#[test]
fn a_window_of_days_is_covered_by_the_day_ahead_which_repeats() {
    let now = START + 10 * DAY + 60;
    let metric = Fixture::new(own(), now).metric;
    for window in [12 * HOUR, DAY, 2 * DAY, 7 * DAY] {
        let mut pipeline = MetricPipeline::new(
            "u-1",
            metric.clone(),
            u32::try_from(window).expect("a week"),
            INTERVALS,
            at(now),
        );
        let range = pipeline.range(at(now));
        pipeline.append(range, answer(range, START), at(now));
        let series = &pipeline
            .result()
            .forecasts
            .as_ref()
            .expect("it is forecast")
            .series[0];
        let points: Vec<_> = series.points().collect();
        assert!(
            points
                .last()
                .is_some_and(|(last, _)| *last > now + 2 * window - 300),
            "{window}"
        );
        for (second, value) in points {
            let expected = load(second - second.rem_euclid(300) + 150);
            assert!(
                (value - expected).abs() < 0.5,
                "{value} for {expected} at {second}"
            );
        }
    }
}
