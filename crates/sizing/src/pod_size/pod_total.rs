//! Caps the sum over a pod's containers by the namespace's limits on pods, in proportion.
//!
//! Source: upstream `pkg/utils/vpa/capping.go` (`capProportionallyToPodLimitRange`,
//! `applyPodLimitRange`).

use model::{
    ContainerRecommendation, LimitMode, Limits, NamespaceLimits, Quantity, ResourceList,
    ResourceName,
};

use super::PodContainer;
use super::limit_mode::{effective_mode, limit_for};
use super::proportion::{Rounding, proportional_limit, scale};

type List = fn(&mut ContainerRecommendation) -> &mut ResourceList;

/// Caps every number by `range`. Containers without a recommendation count with their current
/// requests.
pub(super) fn cap_total(
    recommended: &mut Vec<ContainerRecommendation>,
    containers: &[PodContainer<'_>],
    range: &Limits,
    namespace: &NamespaceLimits,
) {
    for container in containers {
        let is_recommended = find(recommended, container).is_some();
        if !is_recommended && !container.requests.is_empty() {
            recommended.push(ContainerRecommendation {
                container_name: container.name.to_owned(),
                target: container.requests.clone(),
                ..ContainerRecommendation::default()
            });
        }
    }
    let lists: [List; 3] = [
        |recommended| &mut recommended.upper_bound,
        |recommended| &mut recommended.target,
        |recommended| &mut recommended.lower_bound,
    ];
    for list in lists {
        for resource in [ResourceName::Cpu, ResourceName::Memory] {
            cap_sum(recommended, containers, range, namespace, &resource, list);
        }
    }
}

fn cap_sum(
    recommended: &mut [ContainerRecommendation],
    containers: &[PodContainer<'_>],
    range: &Limits,
    namespace: &NamespaceLimits,
    resource: &ResourceName,
    list: List,
) {
    let sums = Sums::of(recommended, containers, range, namespace, resource, list);
    let Some((numerator, denominator, rounding)) = sums.factor(range, resource) else {
        return;
    };
    for recommended in recommended {
        let list = list(recommended);
        if list.is_empty() {
            continue;
        }
        // Upstream treats missing resources as zero.
        let quantity = list.get(resource).unwrap_or(&Quantity::ZERO);
        if let Some(scaled) = scale(resource, quantity, &numerator, &denominator, rounding) {
            list.insert(resource.clone(), scaled);
        }
    }
}

struct Sums {
    requests: Quantity,
    limits: Quantity,
}

impl Sums {
    fn of(
        recommended: &mut [ContainerRecommendation],
        containers: &[PodContainer<'_>],
        range: &Limits,
        namespace: &NamespaceLimits,
        resource: &ResourceName,
        list: List,
    ) -> Self {
        let default = range.default.as_ref().and_then(|list| list.get(resource));
        let mut sums = Self {
            requests: Quantity::ZERO,
            limits: Quantity::ZERO,
        };
        for container in containers {
            let [limit, request] =
                [container.limits, container.requests].map(|list| list.get(resource));
            let (recommended, mode) = match find(recommended, container) {
                Some(recommended) => (
                    list(recommended).get(resource),
                    effective_mode(container, resource, namespace).0,
                ),
                None => (request, &LimitMode::Proportional),
            };
            let limit = match mode {
                LimitMode::Proportional => {
                    proportional_limit(resource, limit, request, recommended, default).0
                }
                mode => limit_for(mode, resource, recommended, None),
            };
            if let Some(limit) = limit {
                sums.limits = &sums.limits + &limit;
            }
            if let Some(recommended) = recommended {
                sums.requests = &sums.requests + recommended;
            }
        }
        sums
    }

    /// Numerator, denominator and rounding of the factor for every request; `None` if the sum is in
    /// range or cannot be changed.
    fn factor(
        self,
        range: &Limits,
        resource: &ResourceName,
    ) -> Option<(Quantity, Quantity, Rounding)> {
        let Self { requests, limits } = self;
        let get = |list: &Option<ResourceList>| list.as_ref()?.get(resource).cloned();
        let min = get(&range.min).unwrap_or_default();
        let max = get(&range.max).filter(|max| !max.is_zero());
        let is_above_max = max.as_ref().is_some_and(|max| limits > *max);
        if (min <= limits && min <= requests && !is_above_max) || limits.is_zero() {
            return None;
        }
        if min > requests {
            let rounding = if *resource == ResourceName::Cpu {
                Rounding::Up
            } else {
                Rounding::Down
            };
            return Some((min, requests, rounding));
        }
        let total = max.filter(|_| is_above_max).unwrap_or(min);
        Some((total, limits, Rounding::Down))
    }
}

fn find<'a>(
    recommended: &'a mut [ContainerRecommendation],
    container: &PodContainer<'_>,
) -> Option<&'a mut ContainerRecommendation> {
    let mut all = recommended.iter_mut();
    all.find(|recommended| recommended.container_name == container.name)
}
