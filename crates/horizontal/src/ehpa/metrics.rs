//! Metrics of the HPA of an EHPA: those of its spec, the predictions of these, and the cron
//! schedule.
//!
//! The HPA scales by the largest, so measured values are the floor of predicted ones. A prediction
//! joins once it is ready, since a failing metric keeps the HPA from scaling down. For the same
//! reason it stays after its history became unreadable, unlike in Crane, until it is certain that
//! there will be none. Source: gocrane/crane `pkg/controller/ehpa/hpa.go` (`GetHPAMetrics`).

use api::condition::ConditionStatus;
use api::ehpa::{
    ExternalSource, MetricIdentifier, MetricKind, MetricSpec, READY, ScalePoint, TargetKind,
};
use api::prediction::HISTORY_READ;
use api::sizing_policy::LabelSelector;
use jiff::SignedDuration;
use k8s_openapi::api::autoscaling::v2::MetricTarget as NativeTarget;
use model::{Quantity, ResourceName};

use super::predictable_metrics::Predictable;
use super::reasons::{NO_SCALING_METRICS, PREDICTION_WITHOUT_TARGET};
use super::scale_point::{average_target, find, fixed, of_pods, scale_points};
use super::status::find as find_condition;
use super::{Observed, Problem, crons, names, prediction, utilization};

/// Time for which a stale prediction still blocks scale-down.
const HOLDS_STILL: SignedDuration = SignedDuration::from_hours(1);

/// All metrics of the HPA, and problems. `None` if no metric is left to scale by: an HPA without
/// metrics would scale by the API server's default of 80 % CPU.
pub(super) fn metrics(observed: &Observed) -> (Option<Vec<MetricSpec>>, Vec<Problem>) {
    let object = observed.object;
    let (points, mut problems) = scale_points(observed);
    let spec = object.spec.metrics.iter().cloned();
    let mut metrics: Vec<_> = spec.map(|metric| fixed(metric, &points)).collect();
    for (predictable, _) in prediction::predicted(observed).0 {
        if !is_expected(observed, &predictable.identifier) {
            continue;
        }
        let (name, identifier) = (names::PREDICTION_METRIC, &predictable.identifier);
        match wanted(observed, &predictable, &points) {
            Ok(average) => metrics.push(external(observed, name, identifier, average)),
            Err(why) => {
                let message =
                    format!("{identifier} is predicted, but the HPA does not use it: {why}");
                problems.push(Problem::new(PREDICTION_WITHOUT_TARGET, message));
            }
        }
    }
    let problem = crons::problem(object);
    // An HPA that has the cron metric keeps it: the adapter has no value until the crons are valid
    // again, and the HPA does not scale down.
    let has_windows =
        problem.is_none() || target_now(observed, names::CRON_METRIC, "cron").is_some();
    if has_windows && !object.spec.crons.is_empty() {
        let one = Quantity::from_milli(1000);
        metrics.push(external(observed, names::CRON_METRIC, "cron", one));
    }
    problems.extend(problem);
    problems.extend(crons::holiday_problem(object));
    let is_lost = metrics.is_empty() && !object.spec.crons.is_empty();
    if !is_lost {
        return (Some(metrics), problems);
    }
    let message = "there is no other metric, so no HPA is created or adopted, and an existing one keeps its metrics";
    problems.push(Problem::new(NO_SCALING_METRICS, message));
    (None, problems)
}

/// Whether the HPA gets the prediction of a metric: it has exactly one series for the whole window,
/// or had one and may have it again. In between the adapter returns an error, and the workload
/// keeps its size.
fn is_expected(observed: &Observed, identifier: &str) -> bool {
    let status = observed.prediction.and_then(|it| it.status.as_ref());
    let mut metrics = status.iter().flat_map(|status| &status.prediction_metrics);
    match metrics.find(|metric| metric.resource_identifier == identifier) {
        Some(metric) if metric.prediction.len() > 1 => false,
        Some(metric) if metric.ready && metric.prediction.len() == 1 => true,
        Some(_) | None => before(observed, identifier).is_some() && !is_given_up(observed),
    }
}

/// Whether the history has been read, but gave no forecast for a while: it is too short, or no
/// longer periodic. An unreadable history never counts, however long that takes.
fn is_given_up(observed: &Observed) -> bool {
    let status = observed.prediction.and_then(|it| it.status.as_ref());
    let since = |kind: &str, holds: ConditionStatus| {
        let condition = find_condition(&status?.conditions, kind)?;
        (condition.status == holds).then_some(condition.last_transition_time.0)
    };
    match (
        since(READY, ConditionStatus::False),
        since(HISTORY_READ, ConditionStatus::True),
    ) {
        (Some(unready), Some(read)) => observed.now.duration_since(unready.max(read)) > HOLDS_STILL,
        _ => false,
    }
}

/// The amount per pod by which the HPA divides a predicted total.
fn wanted(
    observed: &Observed,
    predictable: &Predictable,
    points: &[ScalePoint],
) -> Result<Quantity, String> {
    let metric = predictable.metric;
    let Some((name, container, target)) = of_pods(metric) else {
        let pods = metric.pods.as_ref().map(|source| &source.target);
        let target = pods.or(metric.external.as_ref().map(|source| &source.target));
        let target = target.ok_or("it is a metric of an object")?;
        return target.average_value.clone().ok_or_else(|| {
            "only a target of type AverageValue can be used with a prediction".to_owned()
        });
    };
    match target.kind {
        TargetKind::AverageValue => target
            .average_value
            .clone()
            .ok_or_else(|| "it has no averageValue".to_owned()),
        TargetKind::Utilization => {
            if let Some(point) = find(points, name, container) {
                return Ok(point.average_value.clone());
            }
            let percent = target
                .average_utilization
                .ok_or("it has no averageUtilization")?;
            let computed =
                utilization::per_pod(observed.pods, &ResourceName::from(name), container, percent);
            // Without running pods the previous amount stays.
            computed.or_else(|why| before(observed, &predictable.identifier).ok_or(why))
        }
        TargetKind::Value => Err("a resource has no target of type Value".to_owned()),
    }
}

/// The amount in the present HPA.
fn before(observed: &Observed, identifier: &str) -> Option<Quantity> {
    target_now(observed, names::PREDICTION_METRIC, identifier)?
        .average_value
        .as_ref()?
        .0
        .parse()
        .ok()
}

/// The target of an added metric in the present HPA.
fn target_now<'a>(
    observed: &Observed<'a>,
    name: &str,
    identifier: &str,
) -> Option<&'a NativeTarget> {
    let labels = names::target_labels(observed.object, identifier);
    let hpa = super::hpa_choice::own(observed)?;
    let metrics = hpa.spec.metrics.as_ref()?;
    let external = metrics.iter().filter_map(|metric| metric.external.as_ref());
    let mut same = external.filter(|external| {
        let selector = external
            .metric
            .selector
            .as_ref()
            .and_then(|selector| selector.match_labels.as_ref());
        external.metric.name == name && selector == Some(&labels)
    });
    same.next().map(|external| &external.target)
}

fn external(observed: &Observed, name: &str, identifier: &str, average: Quantity) -> MetricSpec {
    let labels = names::target_labels(observed.object, identifier);
    let selector = LabelSelector {
        match_labels: labels,
        ..LabelSelector::default()
    };
    MetricSpec {
        kind: MetricKind::External,
        resource: None,
        container_resource: None,
        pods: None,
        object: None,
        external: Some(ExternalSource {
            metric: MetricIdentifier {
                name: name.to_owned(),
                selector: Some(selector),
            },
            target: average_target(average),
        }),
    }
}
