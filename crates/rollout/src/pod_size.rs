//! The sizes of one pod: its VPA object's recommendation, capped for the pod.
//!
//! The formulas are in `sizing`. Here they get the pod, the policy and the namespace's limits.

use api::vpa::VerticalPodAutoscalerSpec;
use model::{ContainerRecommendation, LimitModes, NamespaceLimits, Recommendation, ResourceList};
use sizing::{ContainerSize, PodContainer, Target, cap_for_pod, pod_sizes};
use view::{ContainerSpec, Running};

static NOTHING: ResourceList = ResourceList::new();

/// The effective requests of a container: those that the kubelet reports, else those of the
/// specification.
pub(super) fn requests(container: &ContainerSpec) -> Option<&ResourceList> {
    match &container.reported {
        Some([requests, _]) => Some(requests),
        None => container.requests.as_ref(),
    }
}

/// The effective limits of a container, by the same rule.
pub(super) fn limits(container: &ContainerSpec) -> Option<&ResourceList> {
    match &container.reported {
        Some([_, limits]) => Some(limits),
        None => container.limits.as_ref(),
    }
}

/// The recommendation for one container.
pub(super) fn container_recommendation<'a>(
    recommendation: &'a Recommendation,
    name: &str,
) -> Option<&'a ContainerRecommendation> {
    recommendation
        .containers
        .iter()
        .find(|container| container.container_name == name)
}

/// The recommendation, capped for the pod.
pub(super) fn pod_recommendation(
    recommendation: &Recommendation,
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    limit_modes: &LimitModes,
    namespace: &NamespaceLimits,
    native_sidecars: bool,
) -> Recommendation {
    let sized = sized_containers(running, native_sidecars);
    let containers = containers(sized, spec, limit_modes);
    cap_for_pod(recommendation, &containers, namespace).recommendation
}

/// The size of each sized container, in the order of [`sized_containers`]; empty without a
/// recommendation.
pub(super) fn sizes(
    recommendation: Option<&Recommendation>,
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    limit_modes: &LimitModes,
    namespace: &NamespaceLimits,
    native_sidecars: bool,
) -> Vec<ContainerSize> {
    let sized = sized_containers(running, native_sidecars);
    match recommendation {
        Some(recommendation) => pod_sizes(
            &Target::all(recommendation),
            &containers(sized, spec, limit_modes),
            namespace,
        ),
        None => sized.map(|_| ContainerSize::default()).collect(),
    }
}

/// The containers that are sized: those of `spec.containers`, then with `native_sidecars` the
/// native sidecars.
pub(super) fn sized_containers(
    running: &Running,
    native_sidecars: bool,
) -> impl Iterator<Item = &ContainerSpec> {
    let sidecars = running
        .init_containers
        .iter()
        .filter(move |container| native_sidecars && container.is_sidecar);
    running.containers.iter().chain(sidecars)
}

/// The paths of [`sized_containers`], with native sidecars, in the specification: list and index.
pub(super) fn container_paths(running: &Running) -> impl Iterator<Item = (&'static str, usize)> {
    let sidecars = running
        .init_containers
        .iter()
        .enumerate()
        .filter(|(_, container)| container.is_sidecar);
    let sidecars = sidecars.map(|(index, _)| ("initContainers", index));
    (0..running.containers.len())
        .map(|index| ("containers", index))
        .chain(sidecars)
}

fn containers<'a>(
    sized: impl Iterator<Item = &'a ContainerSpec>,
    spec: &'a VerticalPodAutoscalerSpec,
    limit_modes: &'a LimitModes,
) -> Vec<PodContainer<'a>> {
    let container = |container: &'a ContainerSpec| PodContainer {
        name: &container.name,
        requests: requests(container).unwrap_or(&NOTHING),
        limits: limits(container).unwrap_or(&NOTHING),
        allowed: spec.allowed(&container.name),
        limit_modes,
    };
    sized.map(container).collect()
}
