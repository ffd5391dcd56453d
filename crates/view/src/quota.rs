//! A `ResourceQuota`: the total that the pods of a namespace may request, and the pods that count.

use k8s_openapi::api::core::v1;
use model::ResourceList;

use crate::limit_range::quantities;
use crate::pod_placement::PodPlacement;
use crate::table::ObjectKey;

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

#[cfg(test)]
mod tests {
    use model::ResourceName;
    use serde_json::{Value, json};

    use super::*;

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
}
