//! The selection of objects by the file of `--config`: selectors and match conditions. What the file
//! adds to the configuration is recorded in an annotation of it, so that it is removed with the
//! field, and additions of other clients stay.

use anyhow::ensure;
use k8s_openapi::api::admissionregistration::v1::{MatchCondition, MutatingWebhookConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};

use super::FailurePolicy;

/// Annotation that Plimsoll writes on a webhook configuration: requirements of the file of `--config`
/// as JSON, to remove them with their fields.
pub(crate) const ANNOTATION: &str = "plimsoll.dev/registered-selection";

/// Selectors and conditions in addition to those of namespaces and of the opt-out label.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selection {
    pub namespace_selector: LabelSelector,
    /// Labels of pods and VPA objects.
    pub object_selector: LabelSelector,
    /// CEL expressions that must be true.
    pub match_conditions: Vec<MatchCondition>,
}

impl Selection {
    pub(super) fn recorded(current: Option<&MutatingWebhookConfiguration>) -> Self {
        let annotations = current.and_then(|current| current.metadata.annotations.as_ref());
        let recorded = annotations.and_then(|annotations| annotations.get(ANNOTATION));
        let parsed = recorded.and_then(|json| serde_json::from_str(json).ok());
        parsed.unwrap_or_default()
    }

    /// The value of the annotation; `None` without requirements.
    pub(super) fn record(&self) -> Option<String> {
        let is_empty = *self == Self::default();
        (!is_empty).then(|| serde_json::to_string(self).unwrap_or_default())
    }
}

pub(super) fn without(selector: &LabelSelector, removed: &LabelSelector) -> LabelSelector {
    let mut left = selector.clone();
    if let (Some(labels), Some(removed)) = (&mut left.match_labels, &removed.match_labels) {
        labels.retain(|key, value| removed.get(key) != Some(value));
    }
    let expressions = left.match_expressions.as_mut();
    if let Some((expressions, removed)) = expressions.zip(removed.match_expressions.as_ref()) {
        expressions.retain(|one| !removed.contains(one));
    }
    normal(left)
}

pub(super) fn with(mut selector: LabelSelector, added: &LabelSelector) -> LabelSelector {
    if let Some(labels) = &added.match_labels {
        let own = selector.match_labels.get_or_insert_default();
        own.extend(labels.clone());
    }
    if let Some(expressions) = &added.match_expressions {
        let own = selector.match_expressions.get_or_insert_default();
        let added = expressions.iter().filter(|one| !own.contains(one));
        own.extend(added.cloned().collect::<Vec<_>>());
    }
    normal(selector)
}

pub(super) fn normal(selector: LabelSelector) -> LabelSelector {
    LabelSelector {
        match_expressions: selector.match_expressions.filter(|list| !list.is_empty()),
        match_labels: selector.match_labels.filter(|labels| !labels.is_empty()),
    }
}

/// The conditions without those of `removed`, and with those of `added` last.
pub(super) fn conditions(
    current: Option<&Vec<MatchCondition>>,
    removed: &[MatchCondition],
    added: &[MatchCondition],
) -> Option<Vec<MatchCondition>> {
    let kept = current.into_iter().flatten().filter(|one| {
        let is_replaced = added.iter().any(|own| own.name == one.name);
        !removed.contains(one) && !is_replaced
    });
    let all: Vec<MatchCondition> = kept.chain(added).cloned().collect();
    Some(all).filter(|all| !all.is_empty())
}

pub(super) const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";
const SYSTEM: &str = "kube-system";

/// The namespaces whose objects are reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceScope {
    AllExcept(Vec<String>),
    Only(String),
}

impl NamespaceScope {
    /// The scope from the flags. With failure policy `Fail` the webhook's own namespace and
    /// `kube-system` are excluded, so that neither depends on the webhook.
    pub fn new(
        policy: FailurePolicy,
        own_namespace: &str,
        only: &str,
        ignored: &[String],
    ) -> anyhow::Result<Self> {
        let excluded = match policy {
            FailurePolicy::Fail => vec![own_namespace, SYSTEM],
            FailurePolicy::Ignore => Vec::new(),
        };
        if !only.is_empty() {
            ensure!(
                !excluded.contains(&only),
                "--vpa-object-namespace={only} and --webhook-failure-policy-fail exclude each other: without the webhook no \
                 pod could be created in {only}, not even those that the webhook needs"
            );
            return Ok(Self::Only(only.to_owned()));
        }
        let mut namespaces = ignored.to_vec();
        namespaces.extend(excluded.into_iter().map(str::to_owned));
        namespaces.sort_unstable();
        namespaces.dedup();
        Ok(Self::AllExcept(namespaces))
    }

    /// The desired selector. Requirements of other labels in the current one are kept.
    pub(super) fn selector(&self, current: Option<&LabelSelector>) -> LabelSelector {
        let own = match self {
            Self::AllExcept(namespaces) if namespaces.is_empty() => None,
            Self::AllExcept(namespaces) => Some(("NotIn", namespaces.clone())),
            Self::Only(namespace) => Some(("In", vec![namespace.clone()])),
        };
        with_requirement(current, NAMESPACE_LABEL, own)
    }
}

pub(super) fn with_requirement(
    current: Option<&LabelSelector>,
    key: &str,
    own: Option<(&str, Vec<String>)>,
) -> LabelSelector {
    let current = current.cloned().unwrap_or_default();
    let mut expressions = current.match_expressions.unwrap_or_default();
    let position = expressions.iter().position(|one| one.key == key);
    let position = position.unwrap_or(expressions.len());
    expressions.retain(|one| one.key != key);
    if let Some((operator, values)) = own {
        let requirement = LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values),
        };
        expressions.insert(position, requirement);
    }
    let mut labels = current.match_labels.unwrap_or_default();
    labels.remove(key);
    normal(LabelSelector {
        match_expressions: Some(expressions),
        match_labels: Some(labels),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::registration;
    use super::super::{Registration, is_current};
    use super::*;

    fn selection(namespaces: &Value, objects: &Value, conditions: &Value) -> Selection {
        let json = json!({"namespaceSelector": namespaces, "objectSelector": objects,
                          "matchConditions": conditions});
        serde_json::from_value(json).expect("a selection")
    }

    fn desired(
        selection: &Selection,
        current: Option<&MutatingWebhookConfiguration>,
    ) -> MutatingWebhookConfiguration {
        let registration = Registration {
            selection: selection.clone(),
            ..registration()
        };
        registration.desired(Some("ours"), None, current)
    }

    fn webhook(configuration: &MutatingWebhookConfiguration) -> Value {
        json!(configuration.webhooks)[0].take()
    }

    #[test]
    fn a_selection_is_replaced_by_the_next_one_and_other_additions_stay() {
        let key = "team";
        let of = |values: &[&str]| json!({"key": key, "operator": "In", "values": values});
        let first = selection(
            &json!({"matchLabels": {"size": "true"}, "matchExpressions": [of(&["a", "b"])]}),
            &json!({"matchExpressions": [of(&["c"])]}),
            &json!([{"name": "jobs", "expression": "first"}]),
        );
        let mut current = desired(&first, None);
        assert!(is_current(&current, &desired(&first, Some(&current))));

        // Another client, such as AKS.
        let theirs = json!({"key": "control-plane", "operator": "NotIn", "values": ["true"]});
        let mut changed = json!(current.webhooks);
        let expressions = &mut changed[0]["namespaceSelector"]["matchExpressions"];
        let requirements = expressions.as_array_mut().expect("a list");
        requirements.push(theirs.clone());
        let conditions = changed[0]["matchConditions"]
            .as_array_mut()
            .expect("a list");
        conditions.push(json!({"name": "theirs", "expression": "true"}));
        current.webhooks = serde_json::from_value(changed).expect("webhooks");

        let second = selection(
            &json!({"matchExpressions": [of(&["b"])]}),
            &json!({}),
            &json!([{"name": "jobs", "expression": "second"}]),
        );
        let next = desired(&second, Some(&current));
        assert!(!is_current(&current, &next));
        let found = webhook(&next);
        assert_eq!(
            found["namespaceSelector"],
            json!({"matchExpressions": [theirs, of(&["b"])]})
        );
        let opt_out = webhook(&desired(&Selection::default(), None))["objectSelector"].take();
        assert_eq!(found["objectSelector"], opt_out);
        assert_eq!(
            found["matchConditions"],
            json!([{"name": "theirs", "expression": "true"}, {"name": "jobs", "expression": "second"}])
        );
        assert!(is_current(&next, &desired(&second, Some(&next))));

        let last = desired(&Selection::default(), Some(&next));
        let found = webhook(&last);
        assert_eq!(
            found["namespaceSelector"],
            json!({"matchExpressions": [theirs]})
        );
        assert_eq!(last.metadata.annotations, None);
        assert!(!is_current(&next, &last));
    }

    /// Expects a selector with these operator and values; `None` for an error.
    fn check(
        policy: FailurePolicy,
        only: &str,
        ignored: &[&str],
        expected: Option<(&str, &[&str])>,
    ) {
        let ignored: Vec<String> = ignored.iter().map(ToString::to_string).collect();
        let scope = NamespaceScope::new(policy, "suite", only, &ignored).ok();
        let found = scope.map(|scope| json!(scope.selector(None))["matchExpressions"][0].take());
        let expected = expected.map(|(operator, values)| {
            json!({"key": NAMESPACE_LABEL, "operator": operator, "values": values})
        });
        assert_eq!(found, expected, "{policy:?} {only}");
    }

    #[test]
    fn a_webhook_with_failure_policy_fail_excludes_itself() {
        use FailurePolicy::{Fail, Ignore};
        let all = NamespaceScope::new(Ignore, "suite", "", &[]).expect("a scope");
        assert_eq!(all.selector(None), LabelSelector::default());
        check(Ignore, "", &["b", "a"], Some(("NotIn", &["a", "b"])));
        for only in ["a", "suite", "kube-system"] {
            check(Ignore, only, &[], Some(("In", &[only])));
        }
        check(
            Fail,
            "",
            &["suite"],
            Some(("NotIn", &["kube-system", "suite"])),
        );
        check(Fail, "a", &[], Some(("In", &["a"])));
        for only in ["suite", "kube-system"] {
            check(Fail, only, &[], None);
        }
    }
}
