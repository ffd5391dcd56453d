//! Result of one prediction: forecasts of its metrics, or the reasons for which there are none.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::condition::ConditionStatus;
use api::prediction::{MetricPrediction, TimeSeriesPredictionStatus};
use forecast::PeakAccuracy;
use jiff::Timestamp;
use model::{Forecast, ForecastSeries, MetricForecast};

use super::published_series::{read, thin};
use super::spec::PredictionSpec;

/// Beginning of the message about an unreadable history.
const UNREAD: &str = "the history cannot be read";

/// Reason of `HistoryRead` of a prediction: the history was read.
const READ: &str = "HistoryRead";
/// Reason of `HistoryRead` of a prediction: the history is being read.
const PENDING: &str = "HistoryPending";
/// Reason of `HistoryRead` of a prediction: Prometheus does not answer.
const OUT_OF_REACH: &str = "HistoryOutOfReach";
/// Reason of `HistoryRead` of a prediction: the memory limit leaves no room; see
/// docs/predictions.md#limits.
const MEMORY_LIMIT_REACHED: &str = "MemoryLimitReached";
/// Reason of `PredictionAccurate` of a prediction: the forecast is used.
const BETTER: &str = "BetterThanSimpleMethod";
/// Reason of `PredictionAccurate` of a prediction: the forecast is replaced by a simple method.
const WORSE: &str = "WorseThanSimpleMethod";

#[derive(Clone, Debug, PartialEq)]
pub struct PredictionResult {
    pub spec: Arc<PredictionSpec>,
    pub metrics: Vec<MetricResult>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricResult {
    pub identifier: String,
    pub forecasts: Option<Arc<MetricForecasts>>,
    /// Reason for which the forecast is missing or incomplete.
    pub missing: Option<String>,
    /// Whether a memory limit prevents the forecast.
    pub is_refused: bool,
    pub is_pending: bool,
    pub read_error: Option<String>,
    pub note: Option<String>,
    /// Seconds that a forecast must reach ahead to be ready.
    pub reach_seconds: i64,
    /// Accuracy over the last day; `None` if it is not known.
    pub accuracy: Option<PeakAccuracy>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MetricForecasts {
    pub at: Timestamp,
    pub series: Vec<ForecastSeries>,
}

impl MetricForecasts {
    pub fn bytes(&self) -> usize {
        let series = |series: &ForecastSeries| {
            size_of::<ForecastSeries>()
                + series.values.capacity() * size_of::<f64>()
                + label_bytes(&series.labels)
        };
        self.series.iter().map(series).sum()
    }
}

/// Approximate memory of labels.
pub(super) fn label_bytes(labels: &BTreeMap<String, String>) -> usize {
    let text = |text: &String| size_of::<String>() + text.len();
    labels
        .iter()
        .map(|(name, value)| text(name) + text(value))
        .sum()
}

impl MetricResult {
    /// Approximate memory of its texts and its forecast.
    pub(super) fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = [&self.missing, &self.read_error, &self.note].map(text);
        let forecasts = self.forecasts.as_ref();
        self.identifier.len()
            + texts.iter().sum::<usize>()
            + forecasts.map_or(0, |forecasts| forecasts.bytes())
    }

    /// Whether anything is known about the metric. A forecast in progress counts, so that nothing
    /// waits for it.
    fn is_known(&self) -> bool {
        self.forecasts.is_some()
            || self.missing.is_some()
            || self.is_pending
            || self.read_error.is_some()
    }

    /// The present forecast. While the history is unreadable or the first forecast is in progress,
    /// it is the one that a previous leader wrote.
    fn current(
        &self,
        written: Option<&MetricPrediction>,
    ) -> (Option<Timestamp>, Vec<ForecastSeries>) {
        match (&self.forecasts, &self.missing, written) {
            (Some(forecasts), ..) => (Some(forecasts.at), forecasts.series.clone()),
            (None, None, Some(written)) if written.ready => {
                (None, written.prediction.iter().filter_map(read).collect())
            }
            (None, ..) => (None, Vec::new()),
        }
    }

    fn reason(&self, is_ready: bool, made_at: Option<Timestamp>) -> String {
        let read_error = self.read_error.as_ref().map(|why| {
            let forecast = made_at.map_or("previous forecast".to_owned(), |at| {
                at.strftime("forecast of %Y-%m-%dT%H:%M:%SZ").to_string()
            });
            if is_ready {
                format!("{UNREAD}: {why}; the {forecast} stays valid until its window ends")
            } else {
                format!("{UNREAD}: {why}")
            }
        });
        let awaited =
            (self.is_pending && !is_ready).then(|| "its history is being read".to_owned());
        let parts: Vec<String> = [self.missing.clone(), awaited, read_error, self.note.clone()]
            .into_iter()
            .flatten()
            .collect();
        parts.join("; ")
    }
}

impl PredictionResult {
    /// Whether anything is known about every metric.
    pub fn is_known(&self) -> bool {
        self.metrics.iter().all(MetricResult::is_known)
    }

    /// Whether the history of a metric is not read yet, or cannot be read.
    pub(super) fn is_awaited(&self) -> bool {
        let mut metrics = self.metrics.iter();
        metrics.any(|metric| metric.is_pending || metric.read_error.is_some())
    }

    /// Status, reason and message of the condition `HistoryRead`.
    pub fn history(&self) -> (ConditionStatus, &'static str, String) {
        let listed = |why: fn(&MetricResult) -> Option<&String>| {
            let one =
                |metric: &MetricResult| Some(format!("{}: {}", metric.identifier, why(metric)?));
            let all: Vec<String> = self.metrics.iter().filter_map(one).collect();
            all.join("; ")
        };
        let unread = listed(|metric| metric.read_error.as_ref());
        if !unread.is_empty() {
            return (ConditionStatus::False, OUT_OF_REACH, unread);
        }
        let refused = listed(|metric| metric.missing.as_ref().filter(|_| metric.is_refused));
        if !refused.is_empty() {
            return (ConditionStatus::False, MEMORY_LIMIT_REACHED, refused);
        }
        if self.metrics.iter().any(|metric| metric.is_pending) {
            return (ConditionStatus::Unknown, PENDING, String::new());
        }
        (ConditionStatus::True, READ, String::new())
    }

    /// Status, reason and message of the condition `PredictionAccurate`; `None` if the accuracy of no
    /// metric is known. The message has the numbers of the day that led to the replacement, so that
    /// it does not change with each sample.
    pub fn accuracy(&self) -> Option<(ConditionStatus, &'static str, String)> {
        let known = self.metrics.iter().filter_map(|metric| {
            let accuracy = metric.accuracy.as_ref()?;
            Some((&metric.identifier, accuracy.set_aside))
        });
        let known: Vec<_> = known.collect();
        let replaced = known.iter().filter_map(|(identifier, set_aside)| {
            let set_aside = set_aside.as_ref()?;
            let name = set_aside.simple_method.name();
            Some(format!(
                "{identifier}: over a day the forecast had a WAPE of {:.3}, and {name} had {:.3}; the best simple method is published until the forecast is better for a day",
                set_aside.wape, set_aside.simple_wape
            ))
        });
        let replaced: Vec<String> = replaced.collect();
        if known.is_empty() {
            return None;
        }
        Some(if replaced.is_empty() {
            (ConditionStatus::True, BETTER, String::new())
        } else {
            (ConditionStatus::False, WORSE, replaced.join("; "))
        })
    }

    /// The forecast to publish. `written` is the status of the object.
    pub fn forecast(
        &self,
        written: Option<&TimeSeriesPredictionStatus>,
        now: Timestamp,
    ) -> Forecast {
        let PredictionSpec {
            key,
            uid,
            generation,
            ..
        } = &*self.spec;
        let written = written
            .map(|status| status.prediction_metrics.as_slice())
            .unwrap_or_default();
        let metrics = self.metrics.iter().map(|metric| {
            let before = written
                .iter()
                .find(|written| written.resource_identifier == metric.identifier);
            metric_forecast(metric, before, now)
        });
        let mut metrics: Vec<MetricForecast> = metrics.collect();
        thin(&mut metrics);
        Forecast {
            uid: uid.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            observed_generation: *generation,
            metrics,
        }
    }
}

fn metric_forecast(
    metric: &MetricResult,
    written: Option<&MetricPrediction>,
    now: Timestamp,
) -> MetricForecast {
    let (made_at, series) = metric.current(written);
    let needed = now.as_second().saturating_add(metric.reach_seconds);
    let last = |series: &ForecastSeries| series.points().last().map(|(last, _)| last);
    let reaches = |series: &ForecastSeries| last(series).is_some_and(|last| last >= needed);
    let is_ready = metric.missing.is_none() && !series.is_empty() && series.iter().all(reaches);
    MetricForecast {
        identifier: metric.identifier.clone(),
        is_ready,
        reason: metric.reason(is_ready, made_at),
        made_at,
        series,
    }
}
