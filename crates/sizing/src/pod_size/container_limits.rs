//! Caps the recommendation for one container by the namespace's limits on containers, then by its
//! policy, then, if limits stay unchanged, by its limit.
//!
//! Source: upstream `pkg/utils/vpa/capping.go` (`getCappedRecommendationForContainer`).

use model::{
    ContainerRecommendation, ControlledValues, LimitMode, Limits, NamespaceLimits, Quantity,
    ResourceList, ResourceName,
};

use super::PodContainer;
use super::limit_mode::effective_mode;
use super::proportion::request_at;

/// Caps target and bounds. Returns the reasons for changes of the target.
pub(super) fn cap(
    recommended: &mut ContainerRecommendation,
    container: &PodContainer<'_>,
    namespace: &NamespaceLimits,
) -> Vec<String> {
    let range = namespace.containers.as_ref();
    let requestable = range
        .map(|range| Requestable::of(container, range, namespace))
        .unwrap_or_default();
    let notes = cap_list(&mut recommended.target, container, &requestable);
    for bound in [&mut recommended.lower_bound, &mut recommended.upper_bound] {
        cap_list(bound, container, &requestable);
    }
    notes
}

fn cap_list(
    list: &mut ResourceList,
    container: &PodContainer<'_>,
    requestable: &Requestable,
) -> Vec<String> {
    let allowed = &container.allowed;
    let range = [
        (Some(&requestable.min), "fit Min in container LimitRange"),
        (Some(&requestable.max), "fit Max in container LimitRange"),
    ];
    let policy = [(allowed.min, "minAllowed"), (allowed.max, "maxAllowed")];
    let mut notes = Vec::new();
    for [(min, at_min), (max, at_max)] in [range, policy] {
        for (resource, quantity) in list.iter_mut() {
            let bound = |list: Option<&ResourceList>| {
                let amount = list.and_then(|list| list.get(resource));
                amount.filter(|amount| is_bound(amount)).cloned()
            };
            if let Some(min) = bound(min).filter(|min| *min > *quantity) {
                *quantity = min;
                notes.push(format!("{resource} capped to {at_min}"));
            }
            if let Some(max) = bound(max).filter(|max| *max < *quantity) {
                *quantity = max;
                notes.push(format!("{resource} capped to {at_max}"));
            }
        }
    }
    if allowed.values == ControlledValues::RequestsOnly {
        for (resource, quantity) in list.iter_mut() {
            let limit = container.limits.get(resource);
            if let Some(limit) = limit.filter(|limit| *quantity > **limit) {
                *quantity = limit.clone();
                notes.push(format!("{resource} capped to container limit"));
            }
        }
    }
    notes
}

/// Whether an amount bounds anything. Upstream takes negative ones, with which the API server refuses
/// every pod.
fn is_bound(amount: &Quantity) -> bool {
    !amount.is_zero() && !amount.is_negative()
}

/// Range of requests for which the request and its proportional limit are within the namespace's
/// limits on containers.
#[derive(Default)]
struct Requestable {
    min: ResourceList,
    max: ResourceList,
}

impl Requestable {
    fn of(container: &PodContainer<'_>, range: &Limits, namespace: &NamespaceLimits) -> Self {
        let get = |list: &Option<ResourceList>, resource: &ResourceName| {
            list.as_ref()?.get(resource).cloned()
        };
        let mut requestable = Self::default();
        for resource in [ResourceName::Cpu, ResourceName::Memory] {
            let (mode, _) = effective_mode(container, &resource, namespace);
            let request_at = |bound: &Quantity| {
                if *mode != LimitMode::Proportional {
                    return Some(bound.clone());
                }
                let lists = [container.limits, container.requests];
                let [limit, request] = lists.map(|list| list.get(&resource));
                let default = get(&range.default, &resource);
                request_at(&resource, bound, limit, request, default.as_ref())
            };
            let (min, max) = (get(&range.min, &resource), get(&range.max, &resource));
            if let Some(max) = max.as_ref().and_then(request_at) {
                requestable.max.insert(resource.clone(), max);
            }
            // The limit and the request must both be above the minimum.
            let for_limit = min.as_ref().and_then(request_at);
            if let Some(min) = min.map(|min| for_limit.filter(|other| *other >= min).unwrap_or(min))
            {
                requestable.min.insert(resource, min);
            }
        }
        requestable
    }
}
