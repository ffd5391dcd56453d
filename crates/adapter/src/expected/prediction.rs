//! Predicted totals of workloads: `crane_autoscaling_prediction`. The autoscaler divides them by the number of pods.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{PredictedMetric, Prediction, Resource, View};
use jiff::Timestamp;
use model::Labels;

use super::forecast::{Forecast, forecast};
use super::{PREDICTION, missing, rely_on, series};
use crate::answer::{ExternalValue, MilliValue};
use crate::ask::ExternalAsk;
use crate::refusal::Refusal;

/// The predictions that an effective autoscaler made say so by this label.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "effective-hpa-controller");

/// One value per series that the selector means. If one of them has none, there is no answer: the autoscaler adds them up.
pub(super) fn values(
    view: &View,
    ask: &ExternalAsk,
    now: Timestamp,
    grace: Duration,
) -> Result<Vec<ExternalValue>, Refusal> {
    // What it says carries its own times, so it matters only whether it was ever read.
    rely_on(view, Resource::Predictions, PREDICTION, now, Duration::MAX)?;
    let mut candidates = series::candidates(&view.expected, &ask.namespace, &ask.selector);
    candidates.sort_by_key(|prediction| prediction.labels.get(MANAGED_BY.0) != Some(MANAGED_BY.1));
    let mut found: BTreeMap<_, (&Prediction, &PredictedMetric)> = BTreeMap::new();
    for prediction in candidates {
        let same_namespace = prediction.target.namespace == ask.namespace;
        for metric in prediction.metrics.iter().filter(|_| same_namespace) {
            let labels = series::labels(&prediction.target, &metric.identifier);
            if ask.selector.matches(&labels.iter().collect::<Labels>()) {
                found.entry(labels).or_insert((prediction, metric));
            }
        }
    }
    if found.is_empty() {
        return Err(missing(PREDICTION, "there is no TimeSeriesPrediction that matches the selector"));
    }
    let value = |(labels, (prediction, metric)): (BTreeMap<String, String>, (&Prediction, &PredictedMetric))| {
        let (value, at) = total(prediction, metric, now, grace, PREDICTION)?;
        let window_seconds = u32::try_from(prediction.window_seconds).ok();
        Ok(ExternalValue { metric: PREDICTION.to_owned(), labels, at, window_seconds, value })
    };
    found.into_iter().map(value).collect()
}

/// What is predicted of all pods of a workload together, and when that was complete.
pub(super) fn total(
    prediction: &Prediction,
    metric: &PredictedMetric,
    now: Timestamp,
    grace: Duration,
    asked_as: &str,
) -> Result<(MilliValue, Timestamp), Refusal> {
    let grace_seconds = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
    let (identifier, target) = (&metric.identifier, &prediction.target);
    let refused = |why: &dyn std::fmt::Display| missing(asked_as, format_args!("{identifier} of {target}: {why}"));
    let Forecast { value, at_seconds } =
        forecast(metric, prediction.window_seconds, now.as_second(), grace_seconds).map_err(|why| refused(&why))?;
    let value = MilliValue::from_units(value).ok_or_else(|| refused(&"the predicted value is no number"))?;
    let at = Timestamp::from_second(at_seconds).map_err(|error| refused(&error))?;
    Ok((value, at))
}
