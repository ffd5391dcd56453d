//! Limits of a namespace: the bounds of a `LimitRange`, of which an empty list differs from an absent
//! one, as upstream; a `ResourceQuota`: the total that the pods may request, and the pods that count; a
//! `PodDisruptionBudget`, reduced to the disruptions that it allows now.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use model::{LimitRangeItem, LimitType, ParseSelectorError, ResourceList, ResourceName, Selector};

use crate::pod_placement::PodPlacement;
use crate::table::ObjectKey;
use crate::workload_controller::of_selector;

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

#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    pub key: ObjectKey,
    /// Hard limits by Kubernetes' resource names, such as `requests.cpu`.
    pub hard: ResourceList,
    /// Scopes; a pod counts if it is in all of them.
    pub scopes: Vec<QuotaScope>,
}

/// A quota scope. `NotBestEffort` is dropped, since sized pods always have requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaScope {
    /// Pods with (`Terminating`) or without (`NotTerminating`) `activeDeadlineSeconds`.
    HasDeadline(bool),
    /// Pods of these priority classes; of any class if the list is empty.
    PriorityIn(Vec<String>),
    /// Pods of other priority classes or of none; only of none if the list is empty.
    PriorityNotIn(Vec<String>),
    /// `BestEffort` and unknown scopes, which contain no sized pod.
    Other,
}

impl Quota {
    pub fn from_k8s(object: v1::ResourceQuota) -> Self {
        let key = ObjectKey::of(object.metadata.namespace, object.metadata.name);
        let spec = object.spec.unwrap_or_default();
        let by_name = spec
            .scopes
            .iter()
            .flatten()
            .filter_map(|scope| named(scope, "Exists", Vec::new()));
        let by_expression = spec
            .scope_selector
            .iter()
            .flat_map(|selector| selector.match_expressions.iter().flatten());
        let by_expression = by_expression.filter_map(|found| {
            named(
                &found.scope_name,
                &found.operator,
                found.values.clone().unwrap_or_default(),
            )
        });
        let scopes = by_name.chain(by_expression).collect();
        Self {
            key,
            hard: quantities(spec.hard.unwrap_or_default()),
            scopes,
        }
    }

    pub fn counts(&self, pod: &PodPlacement) -> bool {
        let is_one_of = |classes: &[String]| {
            pod.priority_class
                .as_ref()
                .is_some_and(|class| classes.contains(class))
        };
        self.scopes.iter().all(|scope| match scope {
            QuotaScope::HasDeadline(has_deadline) => pod.has_deadline == *has_deadline,
            QuotaScope::PriorityIn(classes) if classes.is_empty() => pod.priority_class.is_some(),
            QuotaScope::PriorityIn(classes) => is_one_of(classes),
            QuotaScope::PriorityNotIn(classes) if classes.is_empty() => {
                pod.priority_class.is_none()
            }
            QuotaScope::PriorityNotIn(classes) => !is_one_of(classes),
            QuotaScope::Other => false,
        })
    }
}

fn named(scope: &str, operator: &str, values: Vec<String>) -> Option<QuotaScope> {
    match (scope, operator) {
        ("NotBestEffort", "Exists") => None,
        ("Terminating", "Exists") => Some(QuotaScope::HasDeadline(true)),
        ("NotTerminating", "Exists") => Some(QuotaScope::HasDeadline(false)),
        ("PriorityClass", "In" | "Exists") => Some(QuotaScope::PriorityIn(values)),
        ("PriorityClass", "NotIn" | "DoesNotExist") => Some(QuotaScope::PriorityNotIn(values)),
        _ => Some(QuotaScope::Other),
    }
}

/// Time after which the disruption controller forgets an admitted eviction whose pod stays.
///
/// Source: `DeletionTimeout` in `pkg/controller/disruption/disruption.go`.
const DELETION_TIMEOUT: jiff::SignedDuration = jiff::SignedDuration::from_mins(2);

#[derive(Debug, Clone, PartialEq)]
pub struct DisruptionBudget {
    pub key: ObjectKey,
    /// Selector of its pods, within its namespace.
    pub selector: Result<Selector, ParseSelectorError>,
    pub generation: i64,
    /// Generation of the status. While it is behind `generation`, the API server refuses evictions.
    pub observed_generation: i64,
    /// Number of pods that may be evicted now.
    pub disruptions_allowed: i32,
    pub current_healthy: i32,
    pub desired_healthy: i32,
    /// Names of pods with an admitted eviction that is not observed yet, and its time.
    pub disrupted: BTreeSet<(String, Timestamp)>,
    /// Whether unready pods may be evicted even while no disruption is allowed
    /// (`unhealthyPodEvictionPolicy: AlwaysAllow`).
    pub always_allows_unhealthy: bool,
}

impl DisruptionBudget {
    pub fn from_k8s(object: PodDisruptionBudget) -> Self {
        let (metadata, spec) = (object.metadata, object.spec.unwrap_or_default());
        let status = object.status.unwrap_or_default();
        Self {
            key: ObjectKey::of(metadata.namespace, metadata.name),
            selector: of_selector(spec.selector),
            generation: metadata.generation.unwrap_or_default(),
            observed_generation: status.observed_generation.unwrap_or_default(),
            disruptions_allowed: status.disruptions_allowed.unwrap_or_default(),
            current_healthy: status.current_healthy.unwrap_or_default(),
            desired_healthy: status.desired_healthy.unwrap_or_default(),
            disrupted: status
                .disrupted_pods
                .into_iter()
                .flatten()
                .map(|(name, time)| (name, time.0))
                .collect(),
            always_allows_unhealthy: spec.unhealthy_pod_eviction_policy.as_deref()
                == Some("AlwaysAllow"),
        }
    }

    /// Whether the status belongs to the present specification.
    pub fn is_current(&self) -> bool {
        self.observed_generation >= self.generation
    }

    /// Whether the API server admits the eviction of a pod. The eviction of an unready pod is no
    /// disruption while `current_healthy` is at least `desired_healthy`.
    ///
    /// Source: `checkAndDecrement` and `canIgnorePDB` in
    /// `pkg/registry/core/pod/storage/eviction.go`.
    pub fn allows(&self, is_ready: bool) -> bool {
        if !is_ready {
            let enough = self.current_healthy >= self.desired_healthy && self.desired_healthy > 0;
            if self.always_allows_unhealthy || enough {
                return true;
            }
        }
        self.is_current() && self.disruptions_allowed > 0
    }

    /// Whether an eviction of the pod of this name was admitted and is not observed yet at `now`.
    pub fn is_disrupting(&self, pod: &str, now: Timestamp) -> bool {
        self.disrupted
            .iter()
            .any(|(name, at)| name == pod && now.duration_since(*at) < DELETION_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use model::{Labels, Quantity, ResourceName};
    use serde_json::{Value, json};

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

    /// Checks whether a quota counts a pod of class `high` without a deadline.
    fn check(spec: &Value, expected: bool) {
        let object = json!({"metadata": {"namespace": "shop", "name": "compute"}, "spec": spec});
        let quota = Quota::from_k8s(serde_json::from_value(object).expect("a quota"));
        let pod = PodPlacement {
            priority_class: Some("high".to_owned()),
            ..PodPlacement::default()
        };
        assert_eq!(quota.counts(&pod), expected, "{spec}");
    }

    #[test]
    fn scopes_select_the_pods_that_count() {
        check(&json!({}), true);
        let both = json!({"scopes": ["NotBestEffort", "NotTerminating"]});
        check(&both, true);
        check(&json!({"scopes": ["BestEffort"]}), false);
        check(&json!({"scopes": ["NotTerminating", "Terminating"]}), false);
        let by_class = |operator: &str, values: Value| {
            let expression =
                json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
            json!({"scopeSelector": {"matchExpressions": [expression]}})
        };
        check(&by_class("In", json!(["low", "high"])), true);
        check(&by_class("In", json!(["low"])), false);
        check(&by_class("NotIn", json!(["high"])), false);
        check(&by_class("Exists", Value::Null), true);
        check(&by_class("DoesNotExist", Value::Null), false);
        let newer = json!({"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"});
        let newer = json!({"scopeSelector": {"matchExpressions": [newer]}});
        check(&newer, false);
    }

    #[test]
    fn amounts_keep_their_names() {
        let object = json!({"spec": {"hard": {"requests.cpu": "2", "pods": "10"}}});
        let quota = Quota::from_k8s(serde_json::from_value(object).expect("a quota"));
        let found = quota.hard.get(&ResourceName::from("requests.cpu"));
        assert_eq!(found, "2".parse().ok().as_ref());
    }

    fn budget(spec: &Value, status: &Value) -> DisruptionBudget {
        let object = json!({
            "metadata": {"namespace": "shop", "name": "web", "generation": 2, "managedFields": []},
            "spec": spec,
            "status": status,
        });
        DisruptionBudget::from_k8s(serde_json::from_value(object).expect("a budget"))
    }

    /// Checks whether a ready pod and an unready pod may be evicted.
    fn check_budget(
        policy: &str,
        [allowed, healthy, desired]: [i32; 3],
        observed: i64,
        expected: [bool; 2],
    ) {
        let status = json!({
            "observedGeneration": observed, "disruptionsAllowed": allowed, "currentHealthy": healthy,
            "desiredHealthy": desired, "expectedPods": 3,
        });
        let budget = budget(&json!({"unhealthyPodEvictionPolicy": policy}), &status);
        let found = [true, false].map(|is_ready| budget.allows(is_ready));
        assert_eq!(found, expected, "{budget:?}");
    }

    #[test]
    fn a_budget_admits_the_evictions_that_the_api_server_admits() {
        check_budget("IfHealthyBudget", [1, 3, 2], 2, [true, true]);
        check_budget("IfHealthyBudget", [0, 2, 2], 2, [false, true]);
        check_budget("IfHealthyBudget", [0, 1, 2], 2, [false, false]);
        check_budget("AlwaysAllow", [0, 1, 2], 2, [false, true]);
        check_budget("IfHealthyBudget", [0, 0, 0], 2, [false, false]);
    }

    #[test]
    fn a_status_of_an_older_generation_does_not_count() {
        check_budget("IfHealthyBudget", [1, 1, 2], 1, [false, false]);
    }

    #[test]
    fn an_empty_selector_means_all_pods_and_none_means_no_pod() {
        let labels = Labels::from_iter([("app", "web")]);
        for (spec, expected) in [
            (json!({"selector": {}}), true),
            (json!({"selector": {"matchLabels": {"app": "web"}}}), true),
            (json!({}), false),
        ] {
            let selector = budget(&spec, &json!({})).selector.expect("a selector");
            assert_eq!(selector.matches(&labels), expected, "{spec}");
        }
    }

    #[test]
    fn an_eviction_that_was_let_through_is_on_its_way_for_two_minutes() {
        let status = json!({
            "disruptedPods": {"web-1": "2026-01-01T00:00:00Z"}, "disruptionsAllowed": 0, "currentHealthy": 1,
            "desiredHealthy": 1, "expectedPods": 1,
        });
        let budget = budget(&json!({}), &status);
        let at = |text: &str| text.parse().expect("a time");
        assert!(budget.is_disrupting("web-1", at("2026-01-01T00:01:59Z")));
        assert!(!budget.is_disrupting("web-1", at("2026-01-01T00:02:00Z")));
        assert!(!budget.is_disrupting("web-2", at("2026-01-01T00:00:00Z")));
    }
}
