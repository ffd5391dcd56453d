//! Sizes that the API server would refuse: a request above a limit that is not changed, what a
//! `LimitRange` forbids, and a total above the resources of the pod as a whole. They stay as the
//! pod's author wrote them, unless the API server would refuse these as well.
//!
//! Upstream clamps sizes to the minimum and maximum of ranges, but lets policies override them,
//! ignores ratios and resources of whole pods, and does not check again after rounding. Source:
//! Kubernetes, `plugin/pkg/admission/limitranger` (`PodValidateLimitFunc`) and
//! `pkg/apis/core/validation` (`validatePodResourceConsistency`).

use model::{LimitRangeItem, LimitType, Quantity, ResourceList, ResourceName};

use super::ContainerSize;
use super::whole_pod::{PodState, ResourcesField, WholePod, Written};

/// The resources that recommendations and resources of whole pods have.
const RESOURCES: [ResourceName; 2] = [ResourceName::Cpu, ResourceName::Memory];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The request would exceed the limit, which is not changed.
    ContainerLimit,
    /// An item of type Container of a `LimitRange`.
    LimitRange,
    /// An item of type Pod of a `LimitRange`.
    LimitRangeOfPod,
    PodResources,
}

impl Refusal {
    /// The reason as part of a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContainerLimit => "its limit stays below the recommended request",
            Self::LimitRange => "a LimitRange would refuse the container",
            Self::LimitRangeOfPod => "a LimitRange would refuse the pod",
            Self::PodResources => "the pod as a whole may not have more",
        }
    }
}

/// Reverts the resources of `sizes` for which the API server would refuse the pod, but not the pod
/// as it is written: first of single containers, then of all.
pub fn revert_refused(pod: &WholePod<'_>, sizes: &mut [ContainerSize], items: &[LimitRangeItem]) {
    if let (true, [size]) = (pod.is_sized, &mut *sizes) {
        for resource in RESOURCES {
            raise_to_containers(pod, size, &resource);
        }
    }
    for container in &pod.containers {
        let Some(size) = container.size.and_then(|index| sizes.get_mut(index)) else {
            continue;
        };
        let requested: Vec<_> = size.requests.iter().map(|(name, _)| name.clone()).collect();
        for resource in requested {
            if is_newly_above_limit(size, container.written, &resource) {
                revert(size, &resource, Refusal::ContainerLimit);
            }
        }
        for resource in RESOURCES {
            let amounts = |state| {
                let size = Some(&*size).filter(|_| state == PodState::Sized);
                let amount = |field| container.written.amount(size, field, &resource).cloned();
                Amounts {
                    request: amount(ResourcesField::Requests),
                    limit: amount(ResourcesField::Limits),
                }
            };
            if is_newly_refused(items, LimitType::Container, &resource, amounts) {
                revert(size, &resource, Refusal::LimitRange);
            }
        }
    }
    for resource in RESOURCES {
        let amounts = |state| {
            let of_pod = |field| {
                let size = sizes.first();
                let size = size.filter(|_| state == PodState::Sized && pod.is_sized);
                let own = pod.resources.unwrap_or_default();
                let own = own.amount(size, field, &resource);
                own.cloned()
                    .or_else(|| pod.total(sizes, field, &resource, state))
            };
            Amounts {
                request: of_pod(ResourcesField::Requests),
                limit: of_pod(ResourcesField::Limits),
            }
        };
        if is_newly_refused(items, LimitType::Pod, &resource, amounts) {
            revert_all(sizes, &resource, Refusal::LimitRangeOfPod);
        }
    }
    for resource in RESOURCES {
        let is_above = |own| is_above(own, pod, sizes, &resource);
        if !pod.is_sized && pod.resources.is_some_and(is_above) {
            revert_all(sizes, &resource, Refusal::PodResources);
        }
    }
}

/// Raises the size of a pod to what its containers ask for: the API server refuses a pod whose containers
/// request more in sum, or one of which has a greater limit.
fn raise_to_containers(pod: &WholePod<'_>, size: &mut ContainerSize, resource: &ResourceName) {
    let written = pod.resources.unwrap_or_default();
    let requested = pod.total(&[], ResourcesField::Requests, resource, PodState::Written);
    let limits = pod.containers.iter();
    let limits = limits.filter_map(|it| it.written.amount(None, ResourcesField::Limits, resource));
    let mut is_raised = false;
    if let (Some(request), Some(least)) = (size.requests.get(resource), requested)
        && *request < least
    {
        size.requests.insert(resource.clone(), least);
        is_raised = true;
    }
    let amount = |field| written.amount(Some(size), field, resource).cloned();
    let least = limits.max().cloned().max(amount(ResourcesField::Requests));
    let follows = size.limits.get(resource).is_some();
    if let (Some(limit), Some(least)) = (amount(ResourcesField::Limits), least)
        && follows
        && limit < least
    {
        size.limits.insert(resource.clone(), least);
        is_raised = true;
    }
    if is_raised {
        size.notes
            .push(format!("{resource}: raised to what the containers ask for"));
    }
}

/// Whether the request would exceed the limit, and did not before.
fn is_newly_above_limit(
    size: &ContainerSize,
    written: Written<'_>,
    resource: &ResourceName,
) -> bool {
    let is_above = |size: Option<&ContainerSize>| {
        let amount = |field| written.amount(size, field, resource);
        amount(ResourcesField::Requests)
            .zip(amount(ResourcesField::Limits))
            .is_some_and(|(request, limit)| request > limit)
    };
    is_above(Some(size)) && !is_above(None)
}

/// Whether items of this type refuse the sized amounts but not the written ones.
fn is_newly_refused(
    items: &[LimitRangeItem],
    kind: LimitType,
    resource: &ResourceName,
    amounts: impl Fn(PodState) -> Amounts,
) -> bool {
    let items = items.iter().filter(|item| item.kind == kind);
    let items = items
        .map(|item| bounds(item, resource))
        .filter(|bounds| bounds.iter().any(Option::is_some));
    if items.clone().next().is_none() {
        return false;
    }
    let refuse = |amounts: &Amounts| items.clone().any(|bounds| amounts.are_refused(bounds));
    refuse(&amounts(PodState::Sized)) && !refuse(&amounts(PodState::Written))
}

/// Minimum, maximum and maximum ratio of a resource.
fn bounds<'a>(item: &'a LimitRangeItem, resource: &ResourceName) -> [Option<&'a Quantity>; 3] {
    let lists = [&item.min, &item.max, &item.max_limit_request_ratio];
    lists.map(|list| list.as_ref()?.get(resource))
}

/// Whether the sized containers exceed the resources of the pod.
fn is_above(
    own: Written<'_>,
    pod: &WholePod<'_>,
    sizes: &[ContainerSize],
    resource: &ResourceName,
) -> bool {
    let get = |field| own.list(field).and_then(|list| list.get(resource));
    let total = |state| {
        pod.total(sizes, ResourcesField::Requests, resource, state)
            .unwrap_or_default()
    };
    let mut limits = pod.containers.iter().filter_map(|container| {
        let size = sizes.get(container.size?)?;
        container
            .written
            .amount(Some(size), ResourcesField::Limits, resource)
    });
    get(ResourcesField::Limits).is_some_and(|max| limits.any(|limit| limit > max))
        || match get(ResourcesField::Requests) {
            Some(max) => total(PodState::Sized) > *max,
            None => {
                has_implicit_zero_requests(own)
                    && total(PodState::Written).is_zero()
                    && !total(PodState::Sized).is_zero()
            }
        }
}

/// Whether some API servers take missing requests of the pod as zero. If the pod has limits, the
/// missing requests default to the total of its containers instead.
fn has_implicit_zero_requests(own: Written<'_>) -> bool {
    let is_empty = |field| own.list(field).is_none_or(ResourceList::is_empty);
    !is_empty(ResourcesField::Requests) && is_empty(ResourcesField::Limits)
}

fn revert_all(sizes: &mut [ContainerSize], resource: &ResourceName, refusal: Refusal) {
    for size in sizes {
        revert(size, resource, refusal);
    }
}

/// Removes a resource from a size, and notes the reason.
fn revert(size: &mut ContainerSize, resource: &ResourceName, refusal: Refusal) {
    if size.requests.get(resource).is_some() {
        size.notes.push(format!(
            "{resource}: stays as it is since {}",
            refusal.as_str()
        ));
        size.refused.push((resource.clone(), refusal));
    }
    size.requests.remove(resource);
    size.limits.remove(resource);
    size.removed_limits.retain(|name| name != resource);
}

/// Request and limit of one resource of a container or pod.
struct Amounts {
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

impl Amounts {
    fn are_refused(&self, [min, max, ratio]: [Option<&Quantity>; 3]) -> bool {
        min.is_some_and(|min| self.are_below(min))
            || max.is_some_and(|max| self.are_above(max))
            || ratio.is_some_and(|ratio| self.exceed_ratio(ratio))
    }

    /// A missing request is below any minimum; a missing limit is not.
    fn are_below(&self, min: &Quantity) -> bool {
        let Self { request, limit } = self;
        request.as_ref().is_none_or(|request| request < min)
            || limit.as_ref().is_some_and(|limit| limit < min)
    }

    /// A missing limit is above any maximum; a missing request is not.
    fn are_above(&self, max: &Quantity) -> bool {
        let Self { request, limit } = self;
        limit.as_ref().is_none_or(|limit| limit > max)
            || request.as_ref().is_some_and(|request| request > max)
    }

    /// A missing or zero request or limit exceeds any ratio. The product of two 64-bit numbers
    /// fits.
    fn exceed_ratio(&self, ratio: &Quantity) -> bool {
        let present = |amount: &Option<Quantity>| {
            amount
                .as_ref()
                .filter(|amount| !amount.is_zero())
                .map(thousandths)
        };
        let (Some(request), Some(limit)) = (present(&self.request), present(&self.limit)) else {
            return true;
        };
        limit.saturating_mul(1000) > request.saturating_mul(thousandths(ratio))
    }
}

fn thousandths(quantity: &Quantity) -> i128 {
    i128::from(quantity.milli_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects whether minimum, maximum and ratio refuse a request and a limit. Empty means none.
    fn check(bounds: [&str; 3], amounts: [&str; 2], expected: bool) {
        let quantity = |text: &str| -> Option<Quantity> {
            (!text.is_empty()).then(|| text.parse().expect("a quantity"))
        };
        let [min, max, ratio] = bounds.map(quantity);
        let [request, limit] = amounts.map(quantity);
        let are_refused =
            Amounts { request, limit }.are_refused([min.as_ref(), max.as_ref(), ratio.as_ref()]);
        assert_eq!(are_refused, expected, "{bounds:?} {amounts:?}");
    }

    #[test]
    fn request_and_limit_are_at_least_the_minimum() {
        let min = ["100m", "", ""];
        check(min, ["100m", ""], false);
        check(min, ["", "1"], true);
        check(min, ["99m", "1"], true);
        check(min, ["100m", "99m"], true);
    }

    #[test]
    fn limit_and_request_are_at_most_the_maximum() {
        let max = ["", "2", ""];
        check(max, ["", "2"], false);
        check(max, ["1", ""], true);
        check(max, ["1", "2001m"], true);
        check(max, ["2001m", "2"], true);
    }

    #[test]
    fn the_ratio_of_limit_and_request_is_bounded() {
        let ratio = ["", "", "1500m"];
        check(ratio, ["100m", "150m"], false);
        check(ratio, ["100m", "151m"], true);
        check(ratio, ["9E", "9E"], false);
        check(ratio, ["1", ""], true);
        check(ratio, ["0", "1"], true);
        check(ratio, ["1", "0"], true);
        check(ratio, ["", "1"], true);
    }

    #[test]
    fn an_empty_range_refuses_nothing() {
        check(["", "", ""], ["", ""], false);
    }
}
