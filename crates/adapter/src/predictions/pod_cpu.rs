//! Predicted CPU per pod: `crane_pod_cpu_usage`, the metric of Crane's documentation.
//!
//! Running pods get equal shares of the workload's prediction, which add up to it exactly; the
//! first pods get the remaining thousandths. The HPA controller divides the sum by the number of
//! pods, and so computes the same replicas as from the total. A request for a single pod returns
//! its share among all pods of the workload.

use std::time::Duration;

use model::{Selector, WorkloadRef};
use view::{LabelledPod, ObjectKey, Phase, PredictedMetric, Prediction, Resource, View, WellKnown};

use super::snapshot::Snapshot;
use super::{LAST_GOOD_VALUE_FOR, POD_CPU, missing};
use crate::request::{CustomMetricRequest, ObjectSelector, StatusError};
use crate::value::{DescribedObject, MetricValue, MilliValue};

const IDENTIFIER: &str = "resource.cpu";

/// Returns one value per requested pod that runs.
pub(super) fn values(
    snapshot: &Snapshot,
    namespace: &str,
    request: &CustomMetricRequest,
) -> Result<Vec<MetricValue>, StatusError> {
    snapshot.ensure_fresh(Resource::Predictions, POD_CPU, Duration::MAX)?;
    snapshot.ensure_fresh(Resource::LabelledPods, POD_CPU, LAST_GOOD_VALUE_FOR)?;
    let (prediction, metric) = predicted(snapshot.view, namespace, request)?;
    let (value, at) = snapshot.total(prediction, metric, POD_CPU)?;
    let selector = match &request.objects {
        ObjectSelector::Labels(selector) => selector,
        ObjectSelector::Name(_) => pod_selector(snapshot, &prediction.target)?,
    };
    // Other pods get no work, and the HPA controller does not count them.
    let is_at_work = |pod: &LabelledPod| {
        matches!(pod.phase, Phase::Running | Phase::Unknown) && !pod.is_terminating
    };
    let pods: Vec<_> = snapshot
        .view
        .labelled_pods
        .in_namespace(namespace)
        .filter(|pod| selector.matches(&pod.labels) && is_at_work(pod))
        .collect();
    let shares = shares(value, pods.len());
    let shares = pods.into_iter().zip(shares);
    let asked = shares.filter(|(pod, _)| match &request.objects {
        ObjectSelector::Name(name) => pod.key.name == *name,
        ObjectSelector::Labels(_) => true,
    });
    let values = asked.map(|(pod, value)| MetricValue {
        object: DescribedObject {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: pod.key.name.clone(),
        },
        metric: POD_CPU.to_owned(),
        metric_selector: request.metric_selector.clone(),
        at,
        window_seconds: u32::try_from(prediction.window_seconds).ok(),
        value,
    });
    let values: Vec<_> = values.collect();
    if !values.is_empty() {
        return Ok(values);
    }
    let why = match &request.objects {
        ObjectSelector::Labels(_) => "no running pod matches the selector".to_owned(),
        ObjectSelector::Name(_) => format!("it is not a running pod of {}", prediction.target),
    };
    Err(missing(POD_CPU, why))
}

fn pod_selector<'a>(
    snapshot: &Snapshot<'a>,
    target: &WorkloadRef,
) -> Result<&'a Selector, StatusError> {
    let unknown = || {
        missing(
            POD_CPU,
            format_args!("the pods of {target} are unknown: select them by labels"),
        )
    };
    let kind = WellKnown::of(&target.api_version, &target.kind).ok_or_else(unknown)?;
    snapshot.ensure_fresh(Resource::Controllers(kind), POD_CPU, LAST_GOOD_VALUE_FOR)?;
    let controller = snapshot
        .view
        .controller(kind, &ObjectKey::new(&target.namespace, &target.name));
    controller
        .and_then(|controller| controller.selector.as_ref().ok())
        .ok_or_else(unknown)
}

/// Returns the only prediction that the metric selector matches; an EHPA's prediction has the
/// EHPA's uid as a label.
fn predicted<'a>(
    view: &'a View,
    namespace: &'a str,
    request: &CustomMetricRequest,
) -> Result<(&'a Prediction, &'a PredictedMetric), StatusError> {
    let selector = &request.metric_selector;
    let here = view.predicted_metrics.in_namespace(namespace);
    // A prediction of a workload in another namespace would reveal that workload's usage.
    let here = here.filter(|prediction| prediction.target.namespace == namespace);
    let mut found = here
        .filter(|prediction| selector.matches(&prediction.labels))
        .filter_map(|prediction| {
            let metric = prediction
                .metrics
                .iter()
                .find(|metric| &*metric.identifier == IDENTIFIER)?;
            Some((&**prediction, metric))
        });
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(missing(
            POD_CPU,
            "there is no TimeSeriesPrediction of resource.cpu that matches the selector",
        )),
        (Some(_), Some(_)) => Err(missing(
            POD_CPU,
            "several TimeSeriesPredictions match the selector",
        )),
    }
}

/// Splits a total into parts that differ by at most a thousandth.
fn shares(total: MilliValue, count: usize) -> impl Iterator<Item = MilliValue> {
    let count = i64::try_from(count).unwrap_or(i64::MAX).max(1);
    let (each, rest) = (total.milli() / count, total.milli() % count);
    (0..count).map(move |index| MilliValue::from_milli(each + i64::from(index < rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(total: i64, count: usize, expected: &[i64]) {
        let shares: Vec<_> = shares(MilliValue::from_milli(total), count)
            .map(MilliValue::milli)
            .collect();
        assert_eq!(shares, expected);
    }

    #[test]
    fn shares_add_up() {
        check(1000, 3, &[334, 333, 333]);
        check(900, 3, &[300, 300, 300]);
        check(1, 2, &[1, 0]);
        check(0, 2, &[0, 0]);
        check(5, 0, &[5]);
    }
}
