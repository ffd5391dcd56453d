//! Predicted totals of workloads: `crane_autoscaling_prediction`. The HPA controller divides them
//! by the number of pods.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Labels;
use view::{MANAGED_BY, PredictedMetric, Prediction, Resource};

use super::snapshot::Snapshot;
use super::{PREDICTION, missing, selector};
use crate::request::{ExternalMetricRequest, StatusError};
use crate::value::ExternalValue;

/// Returns one value per series that the selector matches. If a series has no value, the request
/// fails, because the HPA controller adds them up.
pub(super) fn values(
    snapshot: &Snapshot,
    request: &ExternalMetricRequest,
) -> Result<Vec<ExternalValue>, StatusError> {
    // A prediction has its own expiry, so the age of the watch does not matter.
    snapshot.ensure_fresh(Resource::Predictions, PREDICTION, Duration::MAX)?;
    let mut candidates = selector::candidates(&snapshot.view.predicted_metrics, request);
    let (_, winners) = selector::schedules(snapshot, request);
    candidates.sort_by_key(|prediction| {
        let managed_by = prediction.labels.get(MANAGED_BY.0);
        winners.prediction_rank(prediction.controller_uid.as_deref(), managed_by)
    });
    let mut found: BTreeMap<_, (&Prediction, &PredictedMetric)> = BTreeMap::new();
    for prediction in candidates {
        let same_namespace = prediction.target.namespace == request.namespace;
        for metric in prediction.metrics.iter().filter(|_| same_namespace) {
            let labels = selector::labels(&prediction.target, &metric.identifier);
            if request.selector.matches(&labels.iter().collect::<Labels>()) {
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
    let values = found.into_iter().map(|(labels, (prediction, metric))| {
        let (value, at) = snapshot.total(prediction, metric, PREDICTION)?;
        Ok(ExternalValue {
            metric: PREDICTION.to_owned(),
            labels,
            at,
            window_seconds: u32::try_from(prediction.window_seconds).ok(),
            value,
        })
    });
    values.collect()
}
