//! Recommendation and forecast of a pod's workload, from watched objects.

use std::collections::HashSet;

use api::vpa::NodeGroup;
use jiff::Timestamp;
use model::{ContainerRecommendation, Recommendation, Workload};
use placement::{PodForecast, PodSpec, forecast_per_pod};
use view::target::{selects, topmost};
use view::{ObjectName, Prediction, View, Vpa, WellKnown};

/// Longest time ahead for which a forecast counts, in seconds.
const MAX_AHEAD_SECONDS: i64 = 3600;

/// Largest number of VPAs and of predictions of one workload that are compared. A tenant can write
/// many.
const MAX_OBJECTS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct WorkloadLoad {
    /// Recommendation of its oldest VPA.
    pub(super) recommendation: Option<Recommendation>,
    pub(super) forecast: PodForecast,
}

/// Load of the workload that a pod with this controller and these labels belongs to. Workloads of
/// custom kinds have none: their scale subresource is not read.
pub(super) fn of_workload<'a>(
    view: &View,
    owner: Workload<'_>,
    spec: &PodSpec,
    label: impl Fn(&str) -> Option<&'a str>,
    now: Timestamp,
) -> WorkloadLoad {
    let Ok(Some(top)) = topmost(view, owner) else {
        return WorkloadLoad::default();
    };
    let vpas = view.vpas_of(top).take(MAX_OBJECTS);
    let vpa = vpas
        .filter(|vpa| NodeGroup::includes(&vpa.object, &label))
        .filter(|vpa| selects(view, vpa.points_at(), &label))
        .min_by_key(|vpa| vpa.precedence());
    WorkloadLoad {
        recommendation: vpa.and_then(|vpa| recommendation(vpa, spec)),
        forecast: forecast(view, top, now),
    }
}

/// The targets of a VPA's status for the containers of a pod.
fn recommendation(vpa: &Vpa, spec: &PodSpec) -> Option<Recommendation> {
    let status = vpa.object.status.as_ref()?;
    let listed = &status.recommendation.as_ref()?.containers;
    let target = |container: &ContainerRecommendation| ContainerRecommendation {
        container_name: container.container_name.clone(),
        target: container.target.clone(),
        ..ContainerRecommendation::default()
    };
    let names: HashSet<&str> = spec.containers.iter().map(|it| it.name.as_str()).collect();
    let listed = listed.iter();
    let own = listed.filter(|container| names.contains(container.container_name.as_str()));
    Some(Recommendation {
        containers: own.map(target).collect(),
    })
}

/// The largest forecast within the prediction window, divided by the replicas.
fn forecast(view: &View, top: Workload<'_>, now: Timestamp) -> PodForecast {
    let name = ObjectName {
        namespace: top.namespace,
        name: top.name,
    };
    let replicas = WellKnown::of(top.api_version, top.kind)
        .and_then(|kind| view.controller(kind, &name))
        .and_then(|controller| controller.replicas)
        .and_then(|replicas| u32::try_from(replicas).ok());
    let Some(replicas) = replicas else {
        return PodForecast::default();
    };
    let of = |identifier: &str, factor: f64| {
        // A prediction of another namespace must not change this one's pods.
        let predictions = view.predicted_metrics.by_workload(top.of_any_version());
        let own = predictions.filter(|object| object.key.namespace == top.namespace);
        own.take(MAX_OBJECTS)
            .find_map(|object| per_pod(object, identifier, replicas, now))
            .map(|value| (value * factor) as i64)
    };
    PodForecast {
        cpu_millicores: of("resource.cpu", 1000.0),
        memory_bytes: of("resource.memory", 1.0),
    }
}

fn per_pod(object: &Prediction, identifier: &str, replicas: u32, now: Timestamp) -> Option<f64> {
    let metric = object
        .metrics
        .iter()
        .find(|metric| metric.ready && &*metric.identifier == identifier)?;
    let [series] = metric.series.as_slice() else {
        return None;
    };
    let from = now.as_second();
    let ahead = i64::from(object.window_seconds).clamp(0, MAX_AHEAD_SECONDS);
    forecast_per_pod(series.iter().copied(), from, from + ahead + 1, replicas)
}
