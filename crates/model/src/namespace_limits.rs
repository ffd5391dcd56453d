//! Combination of all `LimitRange`s of a namespace: the highest minimum, the lowest maximum, the
//! last defaults.
//!
//! Source: upstream `pkg/utils/limitrange/limit_range_calculator.go`.

use crate::{Quantity, ResourceList, ResourceName};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceLimits {
    pub containers: Option<Limits>,
    /// Limits on the sum over a pod's containers.
    pub pods: Option<Limits>,
    /// The items that both are combined from. The API server checks a pod against each of them.
    pub items: Vec<LimitRangeItem>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitType {
    Container,
    /// The sum over a pod's containers.
    Pod,
}

/// One item of a `LimitRange`. Quantities are by resource name; `None` where the list is absent.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitRangeItem {
    pub kind: LimitType,
    pub min: Option<ResourceList>,
    pub max: Option<ResourceList>,
    /// Default limits of containers without limits.
    pub default: Option<ResourceList>,
    /// Default requests of containers without requests.
    pub default_request: Option<ResourceList>,
    pub max_limit_request_ratio: Option<ResourceList>,
}

impl NamespaceLimits {
    /// The limits of a namespace with these items, in the order of their objects.
    pub fn of(items: Vec<LimitRangeItem>) -> Self {
        let merged = |kind: LimitType| {
            let items = items.iter().filter(|item| item.kind == kind);
            Limits::merged(items.map(|item| Limits {
                min: item.min.clone(),
                max: item.max.clone(),
                default: item.default.clone(),
            }))
        };
        Self {
            containers: merged(LimitType::Container),
            pods: merged(LimitType::Pod),
            items,
        }
    }
}

/// Limits on containers or pods. An empty list differs from an absent one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    pub min: Option<ResourceList>,
    pub max: Option<ResourceList>,
    pub default: Option<ResourceList>,
}

impl Limits {
    /// Combines items of the same kind, of one or more objects; `None` if there are no limits.
    pub fn merged(items: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut merged = Self::default();
        for Self { min, max, default } in items {
            merged.default = default.or(merged.default);
            merge(&mut merged.min, min, Quantity::max);
            merge(&mut merged.max, max, Quantity::min);
        }
        (merged != Self::default()).then_some(merged)
    }
}

/// Uses the first list unchanged; of later ones only CPU and memory, as upstream.
fn merge(
    merged: &mut Option<ResourceList>,
    next: Option<ResourceList>,
    pick: fn(Quantity, Quantity) -> Quantity,
) {
    let (Some(merged), Some(next)) = (merged.as_mut(), next.as_ref()) else {
        *merged = merged.take().or(next);
        return;
    };
    for name in [ResourceName::Cpu, ResourceName::Memory] {
        let Some(next) = next.get(&name).cloned() else {
            continue;
        };
        let picked = match merged.get(&name).cloned() {
            Some(before) => pick(before, next),
            None => next,
        };
        merged.insert(name, picked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type List = Option<&'static [(&'static str, &'static str)]>;

    fn list(list: List) -> Option<ResourceList> {
        list.map(|list| {
            list.iter()
                .map(|(name, text)| (ResourceName::from(*name), text.parse().unwrap()))
                .collect()
        })
    }

    /// Each item as minimum, maximum and default.
    fn check(items: &[[List; 3]], expected: Option<[List; 3]>) {
        let limits = |[min, max, default]: [List; 3]| Limits {
            min: list(min),
            max: list(max),
            default: list(default),
        };
        let found = Limits::merged(items.iter().copied().map(limits));
        assert_eq!(found, expected.map(limits), "{items:?}");
    }

    #[test]
    fn the_highest_minimum_the_lowest_maximum_and_the_last_defaults_count() {
        let (one, two): (List, List) = (Some(&[("cpu", "1")]), Some(&[("cpu", "2")]));
        let two_and: List = Some(&[("cpu", "2"), ("memory", "1Mi")]);
        let four_and_more: List = Some(&[("cpu", "4"), ("memory", "1Gi")]);
        let four_and: List = Some(&[("cpu", "4"), ("memory", "1Mi")]);
        let eight_and: List = Some(&[("cpu", "8"), ("memory", "1Mi")]);
        let last: List = Some(&[("memory", "3Gi")]);
        check(
            &[
                [one, four_and_more, two],
                [two_and, eight_and, None],
                [None, None, last],
            ],
            Some([two_and, four_and, last]),
        );
    }

    #[test]
    fn an_empty_list_is_not_an_absent_one() {
        check(&[], None);
        check(&[[None, None, None]], None);
        check(&[[Some(&[]), None, None]], Some([Some(&[]), None, None]));
    }

    #[test]
    fn of_later_lists_only_cpu_and_memory_are_taken() {
        let gpu: List = Some(&[("nvidia.com/gpu", "1")]);
        let gpus: List = Some(&[("nvidia.com/gpu", "2")]);
        check(
            &[[gpu, None, None], [gpus, None, None]],
            Some([gpu, None, None]),
        );
    }
}
