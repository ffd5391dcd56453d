//! What is known of one object: what its metrics will be, or why that is not known. It is told on
//! the feed as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::condition::ConditionStatus;
use api::prediction::{MetricPrediction, TimeSeriesPredictionStatus};
use jiff::Timestamp;
use model::{Forecast, ForecastSeries, MetricForecast};

use super::points::{read, thin};
use super::spec::PredictionSpec;

/// How it is said that a history is out of reach.
const UNREAD: &str = "the history cannot be read";

/// What is known of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionResult {
    pub spec: Arc<PredictionSpec>,
    /// In the order of the object.
    pub metrics: Vec<MetricResult>,
}

/// What is known of one metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricResult {
    pub identifier: String,
    /// What was made of the history last.
    pub made: Option<Arc<MetricForecasts>>,
    /// Why not all of it is forecast.
    pub missing: Option<String>,
    /// Whether it is not forecast because of a memory limit.
    pub is_refused: bool,
    /// Whether it is being found out for the first time.
    pub is_pending: bool,
    /// Why its history cannot be read at present.
    pub read_error: Option<String>,
    /// What else the user should know.
    pub note: Option<String>,
    /// How far it must reach to be ready.
    pub reach_seconds: i64,
}

/// A forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricForecasts {
    pub at: Timestamp,
    pub series: Vec<ForecastSeries>,
}

impl MetricForecasts {
    /// About the memory that it takes.
    pub fn bytes(&self) -> usize {
        let labels = |series: &ForecastSeries| label_bytes(&series.labels);
        let series = |series: &ForecastSeries| {
            size_of::<ForecastSeries>()
                + series.values.capacity() * size_of::<f64>()
                + labels(series)
        };
        self.series.iter().map(series).sum()
    }
}

/// About the memory that labels take.
pub(super) fn label_bytes(labels: &BTreeMap<String, String>) -> usize {
    let text = |text: &String| size_of::<String>() + text.len();
    labels
        .iter()
        .map(|(name, value)| text(name) + text(value))
        .sum()
}

impl MetricResult {
    /// About the memory that its texts and its forecast take.
    pub(super) fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = [&self.missing, &self.read_error, &self.note]
            .into_iter()
            .map(text)
            .sum::<usize>();
        self.identifier.len() + texts + self.made.as_ref().map_or(0, |made| made.bytes())
    }

    /// Whether there is anything to be said about it yet. Nobody waits for what takes long.
    fn is_known(&self) -> bool {
        self.made.is_some()
            || self.missing.is_some()
            || self.is_pending
            || self.read_error.is_some()
    }

    /// What holds now: what was made, or while the history cannot be read or is looked at for the
    /// first time, what a leader before us wrote.
    fn holds(
        &self,
        written: Option<&MetricPrediction>,
    ) -> (Option<Timestamp>, Vec<ForecastSeries>) {
        match (&self.made, &self.missing, written) {
            (Some(made), ..) => (Some(made.at), made.series.clone()),
            (None, None, Some(written)) if written.ready => {
                (None, written.prediction.iter().filter_map(read).collect())
            }
            (None, ..) => (None, Vec::new()),
        }
    }

    fn reason(&self, is_ready: bool, made_at: Option<Timestamp>) -> String {
        let read_error = self
            .read_error
            .as_ref()
            .map(|why| match (is_ready, made_at) {
                (true, Some(at)) => {
                    let at = at.strftime("%Y-%m-%dT%H:%M:%SZ");
                    format!("{UNREAD}: {why}; what was forecast at {at} holds on for a while")
                }
                (true, None) => {
                    format!("{UNREAD}: {why}; what was forecast before holds on for a while")
                }
                (false, _) => format!("{UNREAD}: {why}"),
            });
        let awaited =
            (self.is_pending && !is_ready).then(|| "its history is being looked at".to_owned());
        let parts: Vec<String> = [self.missing.clone(), awaited, read_error, self.note.clone()]
            .into_iter()
            .flatten()
            .collect();
        parts.join("; ")
    }
}

impl PredictionResult {
    /// Whether something was found out about every metric.
    pub fn is_known(&self) -> bool {
        self.metrics.iter().all(MetricResult::is_known)
    }

    /// Whether its history could be read, why in one word, and why not in a sentence.
    pub fn history(&self) -> (ConditionStatus, &'static str, String) {
        let read_error = self
            .metrics
            .iter()
            .filter_map(|metric| Some((&metric.identifier, metric.read_error.as_ref()?)));
        let read_error: Vec<String> = read_error
            .map(|(identifier, why)| format!("{identifier}: {why}"))
            .collect();
        if !read_error.is_empty() {
            return (
                ConditionStatus::False,
                "HistoryOutOfReach",
                read_error.join("; "),
            );
        }
        let refused = self.metrics.iter().filter(|metric| metric.is_refused);
        let refused: Vec<String> = refused
            .map(|metric| {
                format!(
                    "{}: {}",
                    metric.identifier,
                    metric.missing.as_deref().unwrap_or_default()
                )
            })
            .collect();
        if !refused.is_empty() {
            return (
                ConditionStatus::False,
                "MemoryLimitReached",
                refused.join("; "),
            );
        }
        if self.metrics.iter().any(|metric| metric.is_pending) {
            return (ConditionStatus::Unknown, "HistoryPending", String::new());
        }
        (ConditionStatus::True, "HistoryRead", String::new())
    }

    /// What is told of it at this time. `written` is the status of the object.
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
    let (made_at, series) = metric.holds(written);
    let needed = now.as_second().saturating_add(metric.reach_seconds);
    let reaches = |series: &ForecastSeries| {
        series
            .points()
            .last()
            .is_some_and(|(last, _)| last >= needed)
    };
    let is_ready = metric.missing.is_none() && !series.is_empty() && series.iter().all(reaches);
    MetricForecast {
        identifier: metric.identifier.clone(),
        is_ready,
        reason: metric.reason(is_ready, made_at),
        made_at,
        series,
    }
}
