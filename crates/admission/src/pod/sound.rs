//! Takes back what would have the API server refuse the pod: a request above a limit that stays, or
//! more than the pod as a whole may have.
//!
//! Upstream patches such pods all the same. A pod that would be refused anyway is left to its fate.
//! Source: Kubernetes, `pkg/apis/core/validation` (`validatePodResourceConsistency`).

use std::slice;

use model::{ResourceList, ResourceName};
use sizing::ContainerSize;

use super::aggregate::{Member, When, members, total};
use super::object::Pod;
use super::sized::Sized;
use crate::patch::Map;
use crate::review::Requirements;

/// What is recommended, and what a pod as a whole may have.
pub(super) const RESOURCES: [ResourceName; 2] = [ResourceName::Cpu, ResourceName::Memory];

/// Takes back every resource whose request would be above its limit although it was not before.
pub(super) fn keep_below_limits(size: &mut ContainerSize, before: &Requirements) {
    let requested = size.requests.iter().map(|(resource, _)| resource);
    let spoilt: Vec<_> = requested
        .filter(|resource| is_spoilt(size, before, resource))
        .cloned()
        .collect();
    for resource in spoilt {
        take_back(
            slice::from_mut(size),
            &resource,
            "its limit stays below the recommended request",
        );
    }
}

/// Takes back CPU or memory of all containers where they would have more than the pod.
pub(super) fn keep_within_pod(
    pod: &Pod<'_>,
    containers: &[Sized<'_>],
    sizes: &mut [ContainerSize],
) {
    let Some(most) = &pod.spec.resources else {
        return;
    };
    for resource in RESOURCES {
        if is_above(most, &members(pod, containers, sizes), &resource) {
            take_back(sizes, &resource, "the pod as a whole may not have more");
        }
    }
}

/// Whether what containers have after they are sized is more than the pod may have.
fn is_above<'a>(
    most: &Requirements,
    members: &(impl Iterator<Item = Member<'a>> + Clone),
    resource: &ResourceName,
) -> bool {
    let get = |map: Map| most.list(map).and_then(|list| list.get(resource));
    let limits = members.clone().filter(Member::is_sized);
    let mut limits = limits.filter_map(|member| member.amount(Map::Limits, resource, When::After));
    let total = |when| total(members.clone(), Map::Requests, resource, when).unwrap_or_default();
    get(Map::Limits).is_some_and(|most| limits.any(|limit| limit > most))
        || match get(Map::Requests) {
            Some(most) => total(When::After) > *most,
            None => {
                is_fixed(most) && total(When::Before).is_zero() && !total(When::After).is_zero()
            }
        }
}

/// Whether requests that a pod as a whole does not have are not filled in. To some API servers they
/// are zero; with limits they become what its containers request.
fn is_fixed(most: &Requirements) -> bool {
    let is_empty = |map| most.list(map).is_none_or(ResourceList::is_empty);
    !is_empty(Map::Requests) && is_empty(Map::Limits)
}

fn is_spoilt(size: &ContainerSize, before: &Requirements, resource: &ResourceName) -> bool {
    let old_request = before.requests.as_ref().and_then(|list| list.get(resource));
    let old_limit = before.limits.as_ref().and_then(|list| list.get(resource));
    let was_spoilt = old_request
        .zip(old_limit)
        .is_some_and(|(request, limit)| request > limit);
    let limit = size.limits.get(resource).or(old_limit);
    let is_spoilt = size
        .requests
        .get(resource)
        .zip(limit)
        .is_some_and(|(request, limit)| request > limit);
    is_spoilt && !was_spoilt
}

/// Leaves a resource of containers as it is written, and says why.
pub(super) fn take_back(sizes: &mut [ContainerSize], resource: &ResourceName, reason: &str) {
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
    }
}
