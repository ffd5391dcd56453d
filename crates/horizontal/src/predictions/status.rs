//! Status of a prediction, and the conditions for a write: its content is outdated or does not
//! reach far enough.
//!
//! As in Crane it covers two windows, so that one is ahead until the next write. Changed values
//! alone are written when the largest one of the window, by which the HPA scales, moved by more
//! than a twentieth. The feed carries smaller changes.

use api::condition::{self, ConditionStatus};
use api::ehpa::READY;
use api::prediction::{
    HISTORY_READ, MetricPrediction, PREDICTION_ACCURATE, TimeSeriesPredictionStatus,
};
use jiff::Timestamp;
use model::{Forecast, MetricForecast};

use super::published_series::write;
use super::result::PredictionResult;
use super::truncate;

/// Relative change of the largest value that causes a write.
const MOVED: f64 = 0.05;
/// Maximum length of a message in characters. The API server accepts 32768.
const MAX_CHARACTERS: usize = 4000;
/// Event, and reason of `Ready`, of a prediction: each metric has a forecast; Crane's reason.
const SUCCEEDED: &str = "PredictSucceed";
/// Event, and reason of `Ready`, of a prediction: some metrics have no forecast, with the reasons;
/// Crane's reason.
const PARTIAL: &str = "PredictPartial";

#[derive(Clone, Debug, PartialEq)]
pub struct StatusUpdate {
    pub status: TimeSeriesPredictionStatus,
    /// Event: whether it is a warning, reason and note.
    pub event: Option<(bool, &'static str, String)>,
}

/// The new status, or `None` if the written one is still accurate.
pub fn status_update(
    result: &PredictionResult,
    forecast: &Forecast,
    old: Option<&TimeSeriesPredictionStatus>,
    now: Timestamp,
) -> Option<StatusUpdate> {
    let empty = TimeSeriesPredictionStatus::default();
    let before = old.unwrap_or(&empty);
    let is_ready = forecast.metrics.iter().all(|metric| metric.is_ready);
    let reason = if is_ready { SUCCEEDED } else { PARTIAL };
    let message = message(forecast, is_ready);
    let mut conditions = before.conditions.clone();
    let (is_read, word, why) = result.history();
    let accuracy = result.accuracy();
    // A new leader does not know it before it has read the history.
    if accuracy.is_none() && !result.is_awaited() {
        conditions.retain(|condition| condition.kind != PREDICTION_ACCURATE);
    }
    let accuracy = accuracy.map(|(is, word, why)| (PREDICTION_ACCURATE, is, word, bounded(&why)));
    let known = [
        (READY, is_ready.into(), reason, message.clone()),
        (HISTORY_READ, is_read, word, bounded(&why)),
    ];
    for (kind, status, reason, message) in known.into_iter().chain(accuracy) {
        condition::set(&mut conditions, kind, status, reason, &message, now);
    }
    let is_same = conditions == before.conditions && old.is_some();
    let window_seconds = i64::from(result.spec.window_seconds);
    let window = now.as_second()..=now.as_second().saturating_add(window_seconds);
    let written = &before.prediction_metrics;
    let mut pairs = written.iter().zip(&forecast.metrics);
    let is_current = is_same
        && written.len() == forecast.metrics.len()
        && pairs.all(|(old, new)| still_holds(old, new, &window));
    if is_current {
        return None;
    }
    let prediction = |metric: &MetricForecast| MetricPrediction {
        resource_identifier: metric.identifier.clone(),
        ready: metric.is_ready,
        prediction: metric.series.iter().map(write).collect(),
    };
    let status = TimeSeriesPredictionStatus {
        prediction_metrics: forecast.metrics.iter().map(prediction).collect(),
        conditions,
    };
    let was = |kind: &str| {
        let mut conditions = before.conditions.iter();
        let was = conditions.find(|was| was.kind == kind);
        was.map(|was| was.status)
    };
    // A first status without a problem causes no event.
    let is_unread = is_read == ConditionStatus::False;
    let was_ready = was(READY).is_none_or(|was| was == ConditionStatus::True);
    let has_event =
        was_ready != is_ready || is_unread != (was(HISTORY_READ) == Some(ConditionStatus::False));
    let note = if message.is_empty() {
        "all metrics are predicted".to_owned()
    } else {
        message
    };
    Some(StatusUpdate {
        status,
        event: has_event.then_some((!is_ready || is_unread, reason, note)),
    })
}

fn message(forecast: &Forecast, is_ready: bool) -> String {
    let metrics = forecast.metrics.iter();
    let with_reason = metrics.filter(|metric| !metric.reason.is_empty());
    let reason = |metric: &MetricForecast| format!("{}: {}", metric.identifier, metric.reason);
    let reasons = with_reason.map(reason).collect::<Vec<_>>().join("; ");
    let text = match (is_ready, reasons.is_empty()) {
        (true, _) => reasons,
        (false, true) => "not all metric predicted".to_owned(),
        (false, false) => format!("not all metric predicted: {reasons}"),
    };
    bounded(&text)
}

fn bounded(text: &str) -> String {
    truncate(text, MAX_CHARACTERS)
}

fn still_holds(
    old: &MetricPrediction,
    new: &MetricForecast,
    window: &std::ops::RangeInclusive<i64>,
) -> bool {
    if old.resource_identifier != new.identifier
        || old.ready != new.is_ready
        || old.prediction.len() != new.series.len()
    {
        return false;
    }
    old.prediction.iter().zip(&new.series).all(|(old, new)| {
        let mut labels = old.labels.iter();
        let has_labels = old.labels.len() == new.labels.len()
            && labels.all(|label| new.labels.get(&label.name) == Some(&label.value));
        let last_old = old.samples.last().map_or(i64::MIN, |last| last.timestamp);
        let last_new = new.points().last().map_or(i64::MIN, |(last, _)| last);
        let reaches = last_old >= *window.end() || last_old >= last_new;
        let samples = old.samples.iter();
        let within = samples.filter(|sample| window.contains(&sample.timestamp));
        let values = within.filter_map(|sample| sample.value.parse().ok());
        let largest_old = values.reduce(f64::max);
        let within = new.points().filter(|(at, _)| window.contains(at));
        let largest_new = within.map(|(_, value)| value).reduce(f64::max);
        let is_near = match (largest_old, largest_new) {
            (Some(old), Some(new)) => (new - old).abs() <= MOVED * old.abs().max(new.abs()) + 1e-5,
            (old, new) => old == new,
        };
        has_labels && reaches && is_near
    })
}
