//! Conversion of pods and of VPA objects with their targets to the inputs of the cluster state.

use std::sync::Arc;

use model::{Labels, Requirement, Selector, Workload};
use sizing::MethodSettings;
use view::target::{Resolution, topmost_of};
use view::{Pod, View, Vpa, WellKnown};

use crate::resource_policy::{container_policies, integer_cpu, vpa_method};
use crate::{PodSpec, VpaSpec};

/// Resolved target.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Target {
    /// The selector of the pods, and the problem of the target, if any.
    Known {
        selector: Selector,
        unsupported: Option<String>,
    },
    /// Not resolved yet; nothing is decided.
    Unknown,
}

/// Resolves a target. After a transient failure the pods stay as before.
pub(super) fn target(resolution: Resolution, before: Option<Target>) -> Target {
    match resolution {
        Resolution::Pods(selector) => Target::Known {
            selector,
            unsupported: None,
        },
        Resolution::Waiting(_) => before.unwrap_or(Target::Unknown),
        Resolution::Unsupported { message, transient } => {
            let kept = match before {
                Some(Target::Known { selector, .. }) if transient => selector,
                _ => Selector::nothing(),
            };
            Target::Known {
                selector: kept,
                unsupported: Some(message),
            }
        }
    }
}

/// Label of pods in the cluster state alone, with the topmost controller: pods of others may have all
/// labels that a target selects. No label of Kubernetes has an empty key.
const CONTROLLER: &str = "";

fn controller(Workload { kind, name, .. }: Workload<'_>) -> String {
    format!("{kind}/{name}")
}

fn labels(pod: &Pod, view: &View) -> Labels {
    let top = topmost_of(view, pod);
    with_controller(&pod.labels, &top.map(controller).unwrap_or_default())
}

/// Labels with that of the topmost controller; empty if it is not known, as of deleted pods.
pub(crate) fn with_controller(labels: &Labels, controller: &str) -> Labels {
    labels.iter().chain([(CONTROLLER, controller)]).collect()
}

pub(super) fn spec(vpa: &Vpa, target: &Target, sizing: Option<MethodSettings>) -> VpaSpec {
    let (selector, target_exists) = match target {
        Target::Known {
            selector,
            unsupported,
        } => (selector.clone(), unsupported.is_none()),
        Target::Unknown => (Selector::nothing(), true),
    };
    let workload = vpa.points_at();
    // Other kinds may select pods that they do not own.
    let selector = match WellKnown::of(workload.api_version, workload.kind) {
        Some(_) => selector.and(Requirement::In(
            CONTROLLER.to_owned(),
            [String::new(), controller(workload)].into(),
        )),
        None => selector,
    };
    VpaSpec {
        selector,
        policies: container_policies(&vpa.object),
        integer_cpu: integer_cpu(&vpa.object),
        target_exists,
        vpa_method: vpa_method(&vpa.object),
        sizing: sizing.map(Arc::new),
    }
}

/// The names of the sized containers, and of the other init containers.
pub(crate) fn container_names(pod: &Pod, native_sidecars: bool) -> (Vec<String>, Vec<String>) {
    let is_sized =
        |name: &String| native_sidecars && pod.sidecars.iter().any(|sidecar| sidecar.name == *name);
    let (sidecars, init_containers): (Vec<String>, _) =
        pod.init_containers.iter().cloned().partition(is_sized);
    let containers = pod
        .containers
        .iter()
        .map(|container| container.name.clone());
    (containers.chain(sidecars).collect(), init_containers)
}

pub(super) fn pod_spec(pod: &Arc<Pod>, view: &View, native_sidecars: bool) -> PodSpec {
    let (containers, init_containers) = container_names(pod, native_sidecars);
    PodSpec {
        namespace: pod.key.namespace.clone(),
        name: pod.key.name.clone(),
        labels: labels(pod, view),
        phase: pod.phase,
        containers,
        init_containers,
        object: Some(Arc::clone(pod)),
    }
}
