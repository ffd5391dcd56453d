//! What the API server's `LimitRanger` says to a new size. It looks at pods after all webhooks, and
//! what it refuses is not created.
//!
//! Upstream holds sizes to the minimum and maximum of ranges, but lets policies win, knows nothing
//! of ratios, and does not look again after it has rounded. Source: Kubernetes,
//! `plugin/pkg/admission/limitranger` (`PodValidateLimitFunc`).

use std::slice;

use model::{Quantity, ResourceName};
use sizing::ContainerSize;
use view::{LimitRange, LimitRangeItem, LimitType};

use super::aggregate::{Member, When, members, total};
use super::object::Pod;
use super::sized::Sized;
use super::sound::{RESOURCES, take_back};
use crate::patch::Map;

/// Takes back what a range would refuse, unless it would refuse the pod as it is written as well.
pub(super) fn hold(
    pod: &Pod<'_>,
    containers: &[Sized<'_>],
    sizes: &mut [ContainerSize],
    ranges: &[&LimitRange],
) {
    if ranges.is_empty() {
        return;
    }
    for (sized, size) in containers.iter().zip(sizes.iter_mut()) {
        for resource in RESOURCES {
            let member = Member::sized(sized, size);
            let amounts = |when| Amounts {
                request: member.amount(Map::Requests, &resource, when).cloned(),
                limit: member.amount(Map::Limits, &resource, when).cloned(),
            };
            if refuse_only_after(ranges, LimitType::Container, &resource, amounts) {
                take_back(
                    slice::from_mut(size),
                    &resource,
                    "a LimitRange would refuse the container",
                );
            }
        }
    }
    for resource in RESOURCES {
        let of_pod = |map, when| {
            let written = pod
                .spec
                .resources
                .as_ref()
                .and_then(|all| all.list(map)?.get(&resource));
            written
                .cloned()
                .or_else(|| total(members(pod, containers, sizes), map, &resource, when))
        };
        let amounts = |when| Amounts {
            request: of_pod(Map::Requests, when),
            limit: of_pod(Map::Limits, when),
        };
        if refuse_only_after(ranges, LimitType::Pod, &resource, amounts) {
            take_back(sizes, &resource, "a LimitRange would refuse the pod");
        }
    }
}

/// Whether items for things of this kind refuse the amounts after they are changed, and not before.
fn refuse_only_after(
    ranges: &[&LimitRange],
    kind: LimitType,
    resource: &ResourceName,
    amounts: impl Fn(When) -> Amounts,
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
    refuse(&amounts(When::After)) && !refuse(&amounts(When::Before))
}

/// Minimum, maximum and ratio of a resource.
fn bounds<'a>(item: &'a LimitRangeItem, resource: &ResourceName) -> [Option<&'a Quantity>; 3] {
    let lists = [&item.min, &item.max, &item.max_limit_request_ratio];
    lists.map(|list| list.as_ref()?.get(resource))
}

/// What a container or a pod has of one resource.
struct Amounts {
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

impl Amounts {
    fn are_refused(&self, [min, max, ratio]: [Option<&Quantity>; 3]) -> bool {
        min.is_some_and(|min| self.are_below(min))
            || max.is_some_and(|max| self.are_above(max))
            || ratio.is_some_and(|ratio| self.are_apart(ratio))
    }

    /// A request must be there; a limit need not.
    fn are_below(&self, min: &Quantity) -> bool {
        let Self { request, limit } = self;
        request.as_ref().is_none_or(|request| request < min)
            || limit.as_ref().is_some_and(|limit| limit < min)
    }

    /// A limit must be there; a request need not.
    fn are_above(&self, max: &Quantity) -> bool {
        let Self { request, limit } = self;
        limit.as_ref().is_none_or(|limit| limit > max)
            || request.as_ref().is_some_and(|request| request > max)
    }

    /// Both must be there. The product of two 64-bit numbers fits.
    fn are_apart(&self, ratio: &Quantity) -> bool {
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

    /// Minimum, maximum and ratio; request and limit; empty where there is none; and whether they
    /// are refused.
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
    fn the_limit_is_at_most_so_many_times_the_request() {
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
    fn a_range_that_asks_nothing_refuses_nothing() {
        check(["", "", ""], ["", ""], false);
    }
}
