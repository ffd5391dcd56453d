//! The bounds of a `LimitRange`. An empty list differs from an absent one, as upstream.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use model::{LimitRangeItem, LimitType, ResourceList, ResourceName};

use crate::table::ObjectKey;

/// A `LimitRange`; a namespace may have several.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitRange {
    pub key: ObjectKey,
    /// Items in the written order. Only those of type Pod and Container are kept.
    pub items: Vec<LimitRangeItem>,
}

impl LimitRange {
    pub fn from_k8s(object: v1::LimitRange) -> Self {
        let key = ObjectKey::of(object.metadata.namespace, object.metadata.name);
        let items = object.spec.map(|spec| spec.limits).unwrap_or_default();
        Self {
            key,
            items: items.into_iter().filter_map(limit_range_item).collect(),
        }
    }
}

fn limit_range_item(item: v1::LimitRangeItem) -> Option<LimitRangeItem> {
    let kind = match item.type_.as_str() {
        "Container" => LimitType::Container,
        "Pod" => LimitType::Pod,
        _ => return None,
    };
    Some(LimitRangeItem {
        kind,
        min: item.min.map(quantities),
        max: item.max.map(quantities),
        default: item.default.map(quantities),
        default_request: item.default_request.map(quantities),
        max_limit_request_ratio: item.max_limit_request_ratio.map(quantities),
    })
}

pub(crate) fn quantities(list: BTreeMap<String, Text>) -> ResourceList {
    list.into_iter()
        .filter_map(|(name, text)| Some((ResourceName::from(name.as_str()), text.0.parse().ok()?)))
        .collect()
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
        let cpu = |amount| Some(ResourceList::from_iter([(ResourceName::Cpu, amount)]));
        let expected = LimitRangeItem {
            kind: LimitType::Container,
            min: cpu(Quantity::from_milli(10)),
            max: Some(ResourceList::new()),
            default: None,
            default_request: None,
            max_limit_request_ratio: cpu(Quantity::from_milli(2000)),
        };
        assert_eq!(range.items, [expected]);
    }
}
