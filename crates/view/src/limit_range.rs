//! What a namespace's `LimitRange` allows. An empty list differs from an absent one, as it does
//! upstream.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use model::{Limits, NamespaceLimits, ResourceList, ResourceName};

use crate::table::{Entry, ObjectKey};

/// Limits of one namespace; a namespace may have several.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitRange {
    /// Namespace and name.
    pub key: ObjectKey,
    /// One item per kind of thing that is limited, in the written order. Only pods and containers
    /// are kept.
    pub items: Vec<LimitRangeItem>,
}

/// What an item limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitType {
    /// Each container.
    Container,
    /// The sum over a pod's containers.
    Pod,
}

/// Quantities by resource name; none where the list is absent.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitRangeItem {
    /// What is limited.
    pub kind: LimitType,
    /// The least that may be asked for.
    pub min: Option<ResourceList>,
    /// The most that may be asked for.
    pub max: Option<ResourceList>,
    /// Limits given to containers without any.
    pub default: Option<ResourceList>,
    /// Requests given to containers without any.
    pub default_request: Option<ResourceList>,
    /// How many times its request a limit may be at most.
    pub max_limit_request_ratio: Option<ResourceList>,
}

impl LimitRange {
    /// Keeps what can change a decision.
    pub fn from_k8s(object: v1::LimitRange) -> Self {
        let key = ObjectKey::new(
            object.metadata.namespace.unwrap_or_default(),
            object.metadata.name.unwrap_or_default(),
        );
        let items = object.spec.map(|spec| spec.limits).unwrap_or_default();
        Self {
            key,
            items: items
                .into_iter()
                .filter_map(LimitRangeItem::from_k8s)
                .collect(),
        }
    }

    /// What several of one namespace ask of its pods together.
    pub fn together(ranges: &[&Self]) -> NamespaceLimits {
        let of = |kind: LimitType| {
            let items = ranges
                .iter()
                .flat_map(|range| &range.items)
                .filter(|item| item.kind == kind);
            Limits::merged(items.map(|item| Limits {
                min: item.min.clone(),
                max: item.max.clone(),
                default: item.default.clone(),
            }))
        };
        NamespaceLimits {
            containers: of(LimitType::Container),
            pods: of(LimitType::Pod),
        }
    }
}

impl LimitRangeItem {
    fn from_k8s(item: v1::LimitRangeItem) -> Option<Self> {
        let kind = match item.type_.as_str() {
            "Container" => LimitType::Container,
            "Pod" => LimitType::Pod,
            _ => return None,
        };
        Some(Self {
            kind,
            min: item.min.map(quantities),
            max: item.max.map(quantities),
            default: item.default.map(quantities),
            default_request: item.default_request.map(quantities),
            max_limit_request_ratio: item.max_limit_request_ratio.map(quantities),
        })
    }
}

pub(crate) fn quantities(list: BTreeMap<String, Text>) -> ResourceList {
    list.into_iter()
        .filter_map(|(name, text)| Some((ResourceName::from(name.as_str()), text.0.parse().ok()?)))
        .collect()
}

impl Entry for LimitRange {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use model::Quantity;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_list_stays_different_from_an_absent_one() {
        let object = json!({
            "metadata": {"namespace": "shop", "name": "limits"},
            "spec": {"limits": [
                {"type": "Container", "max": {}, "min": {"cpu": "10m"}, "maxLimitRequestRatio": {"cpu": "2"}},
                {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
            ]},
        });
        let range = LimitRange::from_k8s(serde_json::from_value(object).expect("a limit range"));
        assert_eq!(range.key, ObjectKey::new("shop", "limits"));
        assert_eq!(
            range.items,
            [LimitRangeItem {
                kind: LimitType::Container,
                min: Some(ResourceList::from_iter([(
                    ResourceName::Cpu,
                    Quantity::from_milli(10)
                )])),
                max: Some(ResourceList::new()),
                default: None,
                default_request: None,
                max_limit_request_ratio: Some(ResourceList::from_iter([(
                    ResourceName::Cpu,
                    Quantity::from_milli(2000)
                )])),
            }]
        );
    }
}
