//! What one pod would get: the recommendation of its autoscaler held to what this pod may have.
//!
//! The mathematics are in `sizing`; this joins the pod, the policy and the namespace.

use api::vpa::VerticalPodAutoscalerSpec;
use cluster::{Running, Specified};
use model::{NamespaceLimits, Recommendation, ResourceList};
use sizing::{ContainerSize, PodContainer, Target, cap_for_pod, pod_sizes};

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
pub(super) fn own_recommendation(
    recommendation: &Recommendation,
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    namespace: &NamespaceLimits,
) -> Recommendation {
    cap_for_pod(recommendation, &containers(running, spec), namespace).recommendation
}

/// What each container would get, in the order of the specification; nothing where nothing is recommended.
pub(super) fn sizes(
    recommendation: Option<&Recommendation>,
    running: &Running,
    spec: &VerticalPodAutoscalerSpec,
    namespace: &NamespaceLimits,
) -> Vec<ContainerSize> {
    match recommendation {
        Some(recommendation) => pod_sizes(&Target::all(recommendation), &containers(running, spec), namespace),
        None => vec![ContainerSize::default(); running.containers.len()],
    }
}

fn containers<'a>(running: &'a Running, spec: &'a VerticalPodAutoscalerSpec) -> Vec<PodContainer<'a>> {
    let container = |container: &'a Specified| PodContainer {
        name: &container.name,
        requests: requests(container).unwrap_or(&NOTHING),
        limits: limits(container).unwrap_or(&NOTHING),
        allowed: spec.allowed(&container.name),
    };
    running.containers.iter().map(container).collect()
}
