//! What one pod would get: the recommendation of its autoscaler held to what this pod may have.
//!
//! The mathematics are in `sizing`; this joins the pod, the policy and the namespace.

use std::time::Duration;

use api::vpa::VerticalPodAutoscalerSpec;
use cluster::{Running, Specified};
use model::{NamespaceLimits, Recommendation, ResourceList, ResourceName};
use sizing::{ContainerSize, PodContainer, Target, cap_for_pod, pod_sizes};

use super::act::QuickOomKill;
use super::priority::recommended;

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

/// The OOM kill of a container, with its memory and what it is to get.
pub(super) fn oom_kill(container: &str, ran_for: Duration, running: &Running, own: &Recommendation) -> QuickOomKill {
    let memory = |list: Option<&ResourceList>| list.and_then(|list| list.get(&ResourceName::Memory)).cloned();
    let specified = running.containers.iter().find(|specified| specified.name == container);
    QuickOomKill {
        container: container.to_owned(),
        ran_for,
        request: memory(specified.and_then(requests)),
        limit: memory(specified.and_then(limits)),
        target: memory(recommended(own, container).map(|recommended| &recommended.target)),
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
