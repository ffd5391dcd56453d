//! Conversion of VPA objects and pods to the inputs of the cluster state.

use std::sync::Arc;

use crate::{PodSpec, VpaSpec};
use model::Selector;
use sizing::MethodSettings;
use view::{Phase, Pod, Vpa};

use super::Target;
use crate::resource_policy::{container_policies, integer_cpu, vpa_method};

pub(super) fn spec(vpa: &Vpa, target: &Target, sizing: Option<MethodSettings>) -> VpaSpec {
    let (selector, target_exists) = match target {
        Target::Known {
            selector,
            unsupported,
        } => (selector.clone(), unsupported.is_none()),
        Target::Unknown => (Selector::nothing(), true),
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

pub(super) fn pod_spec(pod: &Pod, native_sidecars: bool) -> PodSpec {
    let (containers, init_containers) = container_names(pod, native_sidecars);
    PodSpec {
        namespace: pod.key.namespace.clone(),
        name: pod.key.name.clone(),
        labels: pod.labels.clone(),
        phase: match pod.phase {
            Phase::Pending => crate::Phase::Pending,
            Phase::Running => crate::Phase::Running,
            Phase::Succeeded => crate::Phase::Succeeded,
            Phase::Failed => crate::Phase::Failed,
            Phase::Unknown => crate::Phase::Unknown,
        },
        containers,
        init_containers,
    }
}
