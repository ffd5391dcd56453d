//! Amount per pod at which replicas are added, kept while a VPA changes the requests.
//!
//! With `plimsoll.dev/hpa: KeepScalePoint` on a VPA of the workload, a target of
//! `averageUtilization` becomes an `averageValue`: the same share of the average request when the
//! mode was first seen. The request is in the EHPA's status, so the amount changes only with the
//! utilization of the spec. Without the mode the HPA scales by utilization again.

use std::sync::Arc;

use api::ehpa::{MetricSpec, MetricTarget, ScalePoint, TargetKind};
use api::vpa::{EffectiveUpdateMode, HpaMode};
use model::{Quantity, ResourceName, WHOLE_POD};
use view::{View, Vpa};

use super::reasons::SCALE_POINT_UNKNOWN;
use super::{Observed, Problem, utilization};

/// VPAs that change requests and ask for the present scale point, ordered by key.
pub fn scale_point_vpas(view: &View) -> Vec<Arc<Vpa>> {
    let asks = |vpa: &&Arc<Vpa>| {
        HpaMode::of(&vpa.object) == Some(Ok(HpaMode::KeepScalePoint))
            && vpa.object.spec.effective_update_mode() != EffectiveUpdateMode::Off
    };
    view.vpas.iter().filter(asks).cloned().collect()
}

/// Whether two lists of VPAs ask for the same. Their status does not count.
pub fn ask_the_same(one: &[Arc<Vpa>], other: &[Arc<Vpa>]) -> bool {
    let mut pairs = one.iter().zip(other);
    one.len() == other.len()
        && pairs.all(|(one, other)| one.key == other.key && one.object.spec == other.object.spec)
}

/// The scale points of the metrics that VPAs ask for, and problems. A known request is kept.
pub fn scale_points(observed: &Observed) -> (Vec<ScalePoint>, Vec<Problem>) {
    let (mut points, mut problems): (Vec<ScalePoint>, _) = (Vec::new(), Vec::new());
    for metric in &observed.object.spec.metrics {
        let Some((resource, container, target)) = of_pods(metric) else {
            continue;
        };
        let is_utilization = target.kind == TargetKind::Utilization;
        let Some(percent) = target.average_utilization.filter(|_| is_utilization) else {
            continue;
        };
        let name = ResourceName::from(resource);
        let is_known = find(&points, resource, container).is_some();
        if is_known || !is_asked_for(observed, &name, container) {
            continue;
        }
        let known = observed.object.status.as_ref();
        let known = known.and_then(|status| find(&status.scale_points, resource, container));
        let request = match known {
            Some(known) => Ok(known.average_request.clone()),
            None => utilization::per_pod(observed.pods, &name, container, 100),
        };
        let point = request.and_then(|request| {
            Ok(ScalePoint {
                resource: resource.to_owned(),
                container: container.map(str::to_owned),
                average_value: share(&request, percent).ok_or_else(|| {
                    format!("{percent} percent of {request} of {resource} is not a valid quantity")
                })?,
                average_request: request,
            })
        });
        match point {
            Ok(point) => points.push(point),
            Err(why) => {
                let message = format!(
                    "the HPA scales by utilization of {resource}, since its scale point is unknown: {why}"
                );
                problems.push(Problem::new(SCALE_POINT_UNKNOWN, message));
            }
        }
    }
    (points, problems)
}

pub(super) fn fixed(mut metric: MetricSpec, points: &[ScalePoint]) -> MetricSpec {
    let amount = of_pods(&metric)
        .filter(|(_, _, target)| target.kind == TargetKind::Utilization)
        .and_then(|(resource, container, _)| find(points, resource, container))
        .map(|point| point.average_value.clone());
    let resource = metric.resource.as_mut().map(|source| &mut source.target);
    let container = metric.container_resource.as_mut();
    let target = resource.or_else(|| container.map(|source| &mut source.target));
    if let (Some(target), Some(amount)) = (target, amount) {
        *target = average_target(amount);
    }
    metric
}

pub(super) fn average_target(amount: Quantity) -> MetricTarget {
    MetricTarget {
        kind: TargetKind::AverageValue,
        value: None,
        average_value: Some(amount),
        average_utilization: None,
    }
}

pub(super) fn find<'a>(
    points: &'a [ScalePoint],
    resource: &str,
    container: Option<&str>,
) -> Option<&'a ScalePoint> {
    let is_it =
        |point: &&ScalePoint| point.resource == resource && point.container.as_deref() == container;
    points.iter().find(is_it)
}

pub(super) fn of_pods(metric: &MetricSpec) -> Option<(&str, Option<&str>, &MetricTarget)> {
    if let Some(source) = &metric.resource {
        return Some((&source.name, None, &source.target));
    }
    let source = metric.container_resource.as_ref()?;
    Some((&source.name, Some(&source.container), &source.target))
}

/// Whether a VPA that asks for the scale point sizes the resource. Without pods the containers are
/// unknown, and each may be sized.
fn is_asked_for(observed: &Observed, resource: &ResourceName, container: Option<&str>) -> bool {
    let sizes = |vpa: &Arc<Vpa>| match (container, observed.pods) {
        (Some(container), _) => vpa.object.spec.sizes(container, resource),
        (None, []) => true,
        (None, pods) => pods.iter().any(|pod| {
            let containers = pod.containers.iter().map(|container| &*container.name);
            let sidecars = pod.sidecars.iter().map(|sidecar| &*sidecar.name);
            let mut names = containers.chain(sidecars).chain([WHOLE_POD]);
            names.any(|name| vpa.object.spec.sizes(name, resource))
        }),
    };
    observed.vpas.iter().any(sizes)
}

/// A percentage of an amount, in thousandths, rounded down. `None` unless it is positive.
fn share(request: &Quantity, percent: i32) -> Option<Quantity> {
    let milli = i128::from(request.milli_value()) * i128::from(percent) / 100;
    let milli = i64::try_from(milli).ok().filter(|milli| *milli > 0)?;
    Some(Quantity::from_milli(milli))
}
