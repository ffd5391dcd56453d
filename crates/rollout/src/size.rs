//! What one pod would get: the recommendation of its VPA object held to what this pod may have.
//!
//! The mathematics are in `sizing`; this joins the pod, the policy and the namespace.

use std::time::Duration;

use api::vpa::VerticalPodAutoscalerSpec;
use jiff::Timestamp;
use model::{NamespaceLimits, Recommendation, ResourceList, ResourceName};
use sizing::{ContainerSize, PodContainer, Target, cap_for_pod, pod_sizes};
use view::{Running, Specified};

use super::action::QuickOomKill;
use super::priority::container_recommendation;

static NOTHING: ResourceList = ResourceList::new();

/// Requests of a container in effect: what the kubelet reports, as a whole, else the specification.
pub(super) fn requests(container: &Specified) -> Option<&ResourceList> {
    match &container.reported {
        Some([requests, _]) => Some(requests),
        None => container.requests.as_ref(),
    }
}

/// Limits of a container in effect.
pub(super) fn limits(container: &Specified) -> Option<&ResourceList> {
    match &container.reported {
        Some([_, limits]) => Some(limits),
        None => container.limits.as_ref(),
    }
}

/// The recommendation for this pod, to compare its requests with.
pub(super) fn pod_recommendation(
    recommendation: &Recommendation,
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    namespace: &NamespaceLimits,
    native_sidecars: bool,
) -> Recommendation {
    let sized = sized_containers(running, native_sidecars);
    cap_for_pod(recommendation, &containers(sized, spec), namespace).recommendation
}

/// What each sized container would get, in the order of [`sized`]; nothing where nothing is
/// recommended.
pub(super) fn sizes(
    recommendation: Option<&Recommendation>,
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    namespace: &NamespaceLimits,
    native_sidecars: bool,
) -> Vec<ContainerSize> {
    let sized = sized_containers(running, native_sidecars);
    match recommendation {
        Some(recommendation) => pod_sizes(
            &Target::all(recommendation),
            &containers(sized, spec),
            namespace,
        ),
        None => sized.map(|_| ContainerSize::default()).collect(),
    }
}

/// The containers that are sized: those of `spec.containers`, then native sidecars where these are
/// sized too.
pub(super) fn sized_containers(
    running: &Running,
    native_sidecars: bool,
) -> impl Iterator<Item = &Specified> {
    let sidecars = running
        .init_containers
        .iter()
        .filter(move |container| native_sidecars && container.is_sidecar);
    running.containers.iter().chain(sidecars)
}

/// Where [`sized`] containers with native sidecars are in the specification: the list, and the
/// index in it.
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

/// The OOM kill of a container, with its memory and what it is to get.
pub(super) fn oom_kill(
    (container, ran_for, ended_at): (&str, Duration, Timestamp),
    running: &Running,
    own: &Recommendation,
) -> QuickOomKill {
    let memory = |list: Option<&ResourceList>| {
        list.and_then(|list| list.get(&ResourceName::Memory))
            .cloned()
    };
    let specified = running
        .containers
        .iter()
        .find(|specified| specified.name == container);
    QuickOomKill {
        container: container.to_owned(),
        ran_for,
        ended_at,
        request: memory(specified.and_then(requests)),
        limit: memory(specified.and_then(limits)),
        target: memory(
            container_recommendation(own, container).map(|recommended| &recommended.target),
        ),
    }
}

fn containers<'a>(
    sized: impl Iterator<Item = &'a Specified>,
    spec: &'a VerticalPodAutoscalerSpec,
) -> Vec<PodContainer<'a>> {
    let container = |container: &'a Specified| PodContainer {
        name: &container.name,
        requests: requests(container).unwrap_or(&NOTHING),
        limits: limits(container).unwrap_or(&NOTHING),
        allowed: spec.allowed(&container.name),
    };
    sized.map(container).collect()
}
