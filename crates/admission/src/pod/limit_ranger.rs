//! Reverts sizes that the API server's `LimitRanger` would refuse. It validates pods after all
//! webhooks.
//!
//! Upstream clamps sizes to the minimum and maximum of ranges, but lets policies override them,
//! ignores ratios, and does not check again after rounding. Source: Kubernetes,
//! `plugin/pkg/admission/limitranger` (`PodValidateLimitFunc`).

use std::slice;

use model::{Quantity, ResourceName};
use sizing::ContainerSize;
use view::{LimitRange, LimitRangeItem, LimitType};

use super::containers::TargetContainer;
use super::object::Pod;
use super::pod_totals::{Member, PodState, members, total};
use super::validation::{RESOURCES, revert};
use crate::patch::ResourcesField;

/// Reverts resources that a range would refuse, unless it would refuse the original pod as well.
pub(super) fn revert_refused(
    pod: &Pod<'_>,
    containers: &[TargetContainer<'_>],
    sizes: &mut [ContainerSize],
    ranges: &[&LimitRange],
) {
    if ranges.is_empty() {
        return;
    }
    for (target, size) in containers.iter().zip(sizes.iter_mut()) {
        for resource in RESOURCES {
            let member = Member::new(target, size);
            let amounts = |state| Amounts {
                request: member
                    .amount(ResourcesField::Requests, &resource, state)
                    .cloned(),
                limit: member
                    .amount(ResourcesField::Limits, &resource, state)
                    .cloned(),
            };
            if is_newly_refused(ranges, LimitType::Container, &resource, amounts) {
                revert(
                    slice::from_mut(size),
                    &resource,
                    "a LimitRange would refuse the container",
                );
            }
        }
    }
    for resource in RESOURCES {
        let of_pod = |field, state| {
            let of_spec = pod
                .spec
                .resources
                .as_ref()
                .and_then(|all| all.list(field)?.get(&resource));
            of_spec
                .cloned()
                .or_else(|| total(members(pod, containers, sizes), field, &resource, state))
        };
        let amounts = |state| Amounts {
            request: of_pod(ResourcesField::Requests, state),
            limit: of_pod(ResourcesField::Limits, state),
        };
        if is_newly_refused(ranges, LimitType::Pod, &resource, amounts) {
            revert(sizes, &resource, "a LimitRange would refuse the pod");
        }
    }
}

/// Whether items of this type refuse the patched amounts but not the original ones.
fn is_newly_refused(
    ranges: &[&LimitRange],
    kind: LimitType,
    resource: &ResourceName,
    amounts: impl Fn(PodState) -> Amounts,
) -> bool {
    let items = ranges
        .iter()
        .flat_map(|range| &range.items)
        .filter(|item| item.kind == kind);
    let items = items
        .map(|item| bounds(item, resource))
        .filter(|bounds| bounds.iter().any(Option::is_some));
    if items.clone().next().is_none() {
        return false;
    }
    let refuse = |amounts: &Amounts| items.clone().any(|bounds| amounts.are_refused(bounds));
    refuse(&amounts(PodState::Patched)) && !refuse(&amounts(PodState::Original))
}

/// Minimum, maximum and maximum ratio of a resource.
fn bounds<'a>(item: &'a LimitRangeItem, resource: &ResourceName) -> [Option<&'a Quantity>; 3] {
    let lists = [&item.min, &item.max, &item.max_limit_request_ratio];
    lists.map(|list| list.as_ref()?.get(resource))
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
