//! Reverts resources for which the API server would refuse the pod: a request above a limit that is
//! not changed, or a total above the resources of the pod as a whole.
//!
//! Upstream patches such pods all the same. A pod that would be refused anyway is not reverted.
//! Source: Kubernetes, `pkg/apis/core/validation` (`validatePodResourceConsistency`).

use std::slice;

use model::{ResourceList, ResourceName};
use sizing::ContainerSize;

use super::containers::TargetContainer;
use super::object::Pod;
use super::pod_totals::{Member, PodState, members, total};
use crate::patch::ResourcesField;
use crate::review::Requirements;

/// The resources that recommendations and `resources` of a pod have.
pub(super) const RESOURCES: [ResourceName; 2] = [ResourceName::Cpu, ResourceName::Memory];

/// Reverts each resource whose request would exceed its limit and did not before.
pub(super) fn revert_above_limits(size: &mut ContainerSize, original: &Requirements) {
    let requested = size.requests.iter().map(|(resource, _)| resource);
    let invalid: Vec<_> = requested
        .filter(|resource| is_newly_above_limit(size, original, resource))
        .cloned()
        .collect();
    for resource in invalid {
        revert(
            slice::from_mut(size),
            &resource,
            "its limit stays below the recommended request",
        );
    }
}

/// Reverts CPU or memory of all containers if they would exceed the resources of the pod.
pub(super) fn revert_above_pod_resources(
    pod: &Pod<'_>,
    containers: &[TargetContainer<'_>],
    sizes: &mut [ContainerSize],
) {
    let Some(of_pod) = &pod.spec.resources else {
        return;
    };
    for resource in RESOURCES {
        if is_above(of_pod, &members(pod, containers, sizes), &resource) {
            revert(sizes, &resource, "the pod as a whole may not have more");
        }
    }
}

/// Whether the patched containers exceed the resources of the pod.
fn is_above<'a>(
    of_pod: &Requirements,
    members: &(impl Iterator<Item = Member<'a>> + Clone),
    resource: &ResourceName,
) -> bool {
    let get = |field: ResourcesField| of_pod.list(field).and_then(|list| list.get(resource));
    let limits = members.clone().filter(Member::is_sized);
    let mut limits = limits
        .filter_map(|member| member.amount(ResourcesField::Limits, resource, PodState::Patched));
    let total = |state| {
        total(members.clone(), ResourcesField::Requests, resource, state).unwrap_or_default()
    };
    get(ResourcesField::Limits).is_some_and(|max| limits.any(|limit| limit > max))
        || match get(ResourcesField::Requests) {
            Some(max) => total(PodState::Patched) > *max,
            None => {
                has_implicit_zero_requests(of_pod)
                    && total(PodState::Original).is_zero()
                    && !total(PodState::Patched).is_zero()
            }
        }
}

/// Whether some API servers take missing requests of the pod as zero. If the pod has limits, the
/// missing requests default to the total of its containers instead.
fn has_implicit_zero_requests(of_pod: &Requirements) -> bool {
    let is_empty = |field| of_pod.list(field).is_none_or(ResourceList::is_empty);
    !is_empty(ResourcesField::Requests) && is_empty(ResourcesField::Limits)
}

fn is_newly_above_limit(
    size: &ContainerSize,
    original: &Requirements,
    resource: &ResourceName,
) -> bool {
    let old_request = original
        .requests
        .as_ref()
        .and_then(|list| list.get(resource));
    let old_limit = original.limits.as_ref().and_then(|list| list.get(resource));
    let was_above = old_request
        .zip(old_limit)
        .is_some_and(|(request, limit)| request > limit);
    let kept_limit = old_limit.filter(|_| !size.removed_limits.contains(resource));
    let limit = size.limits.get(resource).or(kept_limit);
    let is_above = size
        .requests
        .get(resource)
        .zip(limit)
        .is_some_and(|(request, limit)| request > limit);
    is_above && !was_above
}

/// Removes a resource from the sizes of containers, and notes the reason.
pub(super) fn revert(sizes: &mut [ContainerSize], resource: &ResourceName, reason: &str) {
    for size in sizes {
        let without = |list: &ResourceList| -> ResourceList {
            let others = list.iter().filter(|(name, _)| *name != resource);
            others
                .map(|(name, quantity)| (name.clone(), quantity.clone()))
                .collect()
        };
        if size.requests.get(resource).is_some() {
            size.notes
                .push(format!("{resource}: stays as it is since {reason}"));
        }
        size.requests = without(&size.requests);
        size.limits = without(&size.limits);
        size.removed_limits.retain(|name| name != resource);
    }
}
