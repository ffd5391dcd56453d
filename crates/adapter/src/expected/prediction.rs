//! Predicted totals of workloads: `crane_autoscaling_prediction`. The autoscaler divides them by
//! the number of pods.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Labels;
use view::{MANAGED_BY, OldestWins, PredictedMetric, Prediction, Resource};

use super::known::Known;
use super::{PREDICTION, missing, series};
use crate::answer::ExternalValue;
use crate::ask::ExternalAsk;
use crate::refusal::Refusal;

/// One value per series that the selector means. If one of them has none, there is no answer: the
/// autoscaler adds them up.
pub(super) fn values(known: &Known, ask: &ExternalAsk) -> Result<Vec<ExternalValue>, Refusal> {
    // What it says carries its own times, so it matters only whether it was ever read.
    known.rely_on(Resource::Predictions, PREDICTION, Duration::MAX)?;
    let mut candidates =
        series::candidates(&known.view.predicted_metrics, &ask.namespace, &ask.selector);
    let cron_schedules =
        series::candidates(&known.view.cron_schedules, &ask.namespace, &ask.selector);
    let winners: OldestWins = cron_schedules
        .iter()
        .map(|schedule| schedule.contender())
        .collect();
    candidates.sort_by_key(|prediction| {
        winners.prediction_rank(
            prediction.controller_uid.as_deref(),
            prediction.labels.get(MANAGED_BY.0),
        )
    });
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
        return Err(missing(
            PREDICTION,
            "there is no TimeSeriesPrediction that matches the selector",
        ));
    }
    let value = |(labels, (prediction, metric)): (
        BTreeMap<String, String>,
        (&Prediction, &PredictedMetric),
    )| {
        let (value, at) = known.total(prediction, metric, PREDICTION)?;
        let window_seconds = u32::try_from(prediction.window_seconds).ok();
        Ok(ExternalValue {
            metric: PREDICTION.to_owned(),
            labels,
            at,
            window_seconds,
            value,
        })
    };
    found.into_iter().map(value).collect()
}
