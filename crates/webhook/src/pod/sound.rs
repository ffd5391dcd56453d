//! Takes back what would have the API server refuse the pod: a request above a limit that stays, or more than the pod as a whole
//! may have.
//!
//! Upstream patches such pods all the same. A pod that would be refused anyway is left to its fate.

use model::{Quantity, ResourceList, ResourceName};
use sizing::ContainerSize;

use crate::review::Requirements;

/// Takes back every resource whose request would be above its limit although it was not before.
pub(crate) fn keep_below_limits(size: &mut ContainerSize, before: &Requirements) {
    let requested = size.requests.iter().map(|(resource, _)| resource);
    let spoilt: Vec<_> = requested.filter(|resource| is_spoilt(size, before, resource)).cloned().collect();
    for resource in spoilt {
        take_back(size, &resource, "its limit stays below the recommended request");
    }
}

/// Takes back CPU or memory of all containers where they would have more than the pod.
pub(crate) fn keep_within_pod(sizes: &mut [ContainerSize], before: &[&Requirements], pod: &Requirements) {
    for resource in [ResourceName::Cpu, ResourceName::Memory] {
        let most = |list: &Option<ResourceList>| list.as_ref().and_then(|list| list.get(&resource)).cloned();
        let (request, limit) = (most(&pod.requests), most(&pod.limits));
        let pairs = || sizes.iter().zip(before);
        let limits = pairs().filter_map(|(size, before)| amount(&size.limits, before.limits.as_ref(), &resource));
        let requests = pairs().filter_map(|(size, before)| amount(&size.requests, before.requests.as_ref(), &resource));
        let sum = requests.fold(Quantity::ZERO, |sum, request| &sum + request);
        let is_above = limit.is_some_and(|limit| limits.into_iter().any(|other| *other > limit))
            || request.is_some_and(|request| sum > request);
        if is_above {
            for size in sizes.iter_mut() {
                take_back(size, &resource, "the pod as a whole may not have more");
            }
        }
    }
}

fn is_spoilt(size: &ContainerSize, before: &Requirements, resource: &ResourceName) -> bool {
    let old_request = before.requests.as_ref().and_then(|list| list.get(resource));
    let old_limit = before.limits.as_ref().and_then(|list| list.get(resource));
    let was_spoilt = old_request.zip(old_limit).is_some_and(|(request, limit)| request > limit);
    let limit = size.limits.get(resource).or(old_limit);
    let is_spoilt = size.requests.get(resource).zip(limit).is_some_and(|(request, limit)| request > limit);
    is_spoilt && !was_spoilt
}

/// What a container has in the end.
fn amount<'a>(
    new: &'a ResourceList,
    before: Option<&'a ResourceList>,
    resource: &ResourceName,
) -> Option<&'a Quantity> {
    new.get(resource).or_else(|| before?.get(resource))
}

fn take_back(size: &mut ContainerSize, resource: &ResourceName, reason: &str) {
    let without = |list: &ResourceList| -> ResourceList {
        let others = list.iter().filter(|(name, _)| *name != resource);
        others.map(|(name, quantity)| (name.clone(), quantity.clone())).collect()
    };
    if size.requests.get(resource).is_some() {
        size.notes.push(format!("{resource}: stays as it is since {reason}"));
    }
    size.requests = without(&size.requests);
    size.limits = without(&size.limits);
}
