//! The `evictionRequirements` of a VPA object. As upstream's, they apply to resizes too.
//!
//! Source: upstream `pkg/updater/priority/scaling_direction_pod_eviction_admission.go`.

use api::vpa::{EvictionChangeRequirement, EvictionRequirement, VerticalPodAutoscalerSpec};
use model::{Quantity, Recommendation, ResourceList, ResourceName};
use view::Running;

use crate::resize::pod_size::{container_recommendation, requests, sized_containers};

/// Whether the pod may be updated: all requirements hold for at least one container, or a container
/// lacks a request.
pub(crate) fn admit(
    running: &Running,
    recommendation: &Recommendation,
    spec: &VerticalPodAutoscalerSpec,
    native_sidecars: bool,
) -> bool {
    let Some(policy) = &spec.update_policy else {
        return true;
    };
    sized_containers(running, native_sidecars).any(|container| {
        let Some(recommended) = container_recommendation(recommendation, &container.name) else {
            return false;
        };
        let requests = requests(container);
        let lacks = |name| requests.get(&name).is_none();
        if lacks(ResourceName::Cpu) || lacks(ResourceName::Memory) {
            return true;
        }
        policy
            .eviction_requirements
            .iter()
            .all(|requirement| holds(requirement, &recommended.target, requests))
    })
}

fn holds(
    requirement: &EvictionRequirement,
    target: &ResourceList,
    requests: &ResourceList,
) -> bool {
    let milli = |list: &ResourceList, name| list.get(name).map_or(0, Quantity::milli_value);
    requirement.resources.iter().any(|name| {
        let (target, request) = (milli(target, name), milli(requests, name));
        match requirement.change_requirement {
            EvictionChangeRequirement::TargetHigherThanRequests => target > request,
            EvictionChangeRequirement::TargetLowerThanRequests => target < request,
        }
    })
}
