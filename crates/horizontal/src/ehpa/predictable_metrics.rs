//! Metrics of an EHPA that can be predicted, their identifiers, and the reason for each other one.
//!
//! The HPA selects a prediction by labels, so the identifier and the name of the workload must be
//! valid label values. Source of the names: gocrane/crane `pkg/utils/ehpa.go`.

use std::collections::BTreeSet;

use api::ehpa::{EffectiveHorizontalPodAutoscaler, MetricKind, MetricSpec};
use model::is_label_value;

use super::names;

pub(super) struct Predictable<'a> {
    /// Identifier within the EHPA, such as `resource.cpu`.
    pub(super) identifier: String,
    pub(super) metric: &'a MetricSpec,
}

/// The metrics that can be predicted; for each other one its name and the reason.
pub(super) fn predictable(
    object: &EffectiveHorizontalPodAutoscaler,
) -> (Vec<Predictable<'_>>, Vec<String>) {
    let mut observed = BTreeSet::new();
    let (mut all, mut others) = (Vec::new(), Vec::new());
    let target = &object.spec.scale_target_ref.name;
    for metric in &object.spec.metrics {
        let Some(identifier) = identifier(metric) else {
            continue;
        };
        let why = if is_label_value(target) {
            obstacle(metric, &identifier)
        } else {
            Some(names::TARGET_UNNAMEABLE)
        };
        // Two metrics with one identifier cannot be distinguished.
        let mut again = || {
            (!observed.insert(identifier.clone()))
                .then_some("only the first metric of this name is predicted")
        };
        match why.or_else(&mut again) {
            Some(why) => others.push(format!("{identifier}: {why}")),
            None => all.push(Predictable { identifier, metric }),
        }
    }
    (all, others)
}

/// `None` if the metric has no source.
fn identifier(metric: &MetricSpec) -> Option<String> {
    let (kind, name) = match metric.kind {
        MetricKind::Resource => ("resource", &metric.resource.as_ref()?.name),
        MetricKind::ContainerResource => (
            "container-resource",
            &metric.container_resource.as_ref()?.name,
        ),
        MetricKind::Pods => ("pods", &metric.pods.as_ref()?.metric.name),
        MetricKind::External => ("external", &metric.external.as_ref()?.metric.name),
        MetricKind::Object => ("object", &metric.object.as_ref()?.metric.name),
    };
    Some(format!("{kind}.{name}"))
}

fn obstacle(metric: &MetricSpec, identifier: &str) -> Option<&'static str> {
    let is_usual = matches!(identifier.rsplit_once('.'), Some((_, "cpu" | "memory")));
    match metric.kind {
        MetricKind::Object => Some("metrics of objects are not predicted"),
        MetricKind::Resource | MetricKind::ContainerResource if !is_usual => {
            Some("only the resources cpu and memory are predicted")
        }
        _ if !is_label_value(identifier) => Some(
            "the metric's name is not a valid label value: at most 63 letters, digits, '-', '_' and '.', \
             a letter or digit at both ends",
        ),
        _ => None,
    }
}
