//! Of which namespaces the API server asks, and the selector that says so.

use anyhow::ensure;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::FailurePolicy;

/// The label that each namespace has, with its name.
pub(super) const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";
const SYSTEM: &str = "kube-system";

/// Of which namespaces the API server asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// All but these.
    AllBut(Vec<String>),
    /// One.
    Only(String),
}

impl Reach {
    /// From the flags about namespaces. Where no answer means a refusal, the webhook must not
    /// depend on itself, nor the cluster's own pods on it.
    pub fn of(
        policy: FailurePolicy,
        own_namespace: &str,
        only: &str,
        ignored: &[String],
    ) -> anyhow::Result<Self> {
        let needed = if policy == FailurePolicy::Fail {
            vec![own_namespace, SYSTEM]
        } else {
            Vec::new()
        };
        if !only.is_empty() {
            ensure!(
                !needed.contains(&only),
                "--vpa-object-namespace={only} and --webhook-failure-policy-fail exclude each other: without the webhook no \
                 pods could be made in {only}, not even those that the webhook needs"
            );
            return Ok(Self::Only(only.to_owned()));
        }
        let mut but = ignored.to_vec();
        but.extend(needed.into_iter().map(str::to_owned));
        but.sort_unstable();
        but.dedup();
        Ok(Self::AllBut(but))
    }

    /// The selector as it should be, given the one that is there: what that says of other labels is
    /// not ours.
    pub(super) fn selector(&self, present: Option<&LabelSelector>) -> LabelSelector {
        let own = match self {
            Self::AllBut(namespaces) if namespaces.is_empty() => None,
            Self::AllBut(namespaces) => Some(("NotIn", namespaces.clone())),
            Self::Only(namespace) => Some(("In", vec![namespace.clone()])),
        };
        with_requirement(present, NAMESPACE_LABEL, own)
    }
}

/// A selector that requires `own` of the label `key`, and of other labels what the present one
/// does.
pub(super) fn with_requirement(
    present: Option<&LabelSelector>,
    key: &str,
    own: Option<(&str, Vec<String>)>,
) -> LabelSelector {
    let LabelSelector {
        match_expressions,
        match_labels,
    } = present.cloned().unwrap_or_default();
    let mut expressions = match_expressions.unwrap_or_default();
    let place = expressions
        .iter()
        .position(|one| one.key == key)
        .unwrap_or(expressions.len());
    expressions.retain(|one| one.key != key);
    if let Some((operator, values)) = own {
        let (key, operator) = (key.to_owned(), operator.to_owned());
        expressions.insert(
            place,
            LabelSelectorRequirement {
                key,
                operator,
                values: Some(values),
            },
        );
    }
    let mut labels = match_labels.unwrap_or_default();
    labels.remove(key);
    LabelSelector {
        match_expressions: Some(expressions).filter(|expressions| !expressions.is_empty()),
        match_labels: Some(labels).filter(|labels| !labels.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selector(policy: FailurePolicy, only: &str, ignored: &[&str]) -> Option<Value> {
        let ignored: Vec<String> = ignored.iter().map(ToString::to_string).collect();
        let selector = Reach::of(policy, "suite", only, &ignored)
            .ok()?
            .selector(None);
        Some(serde_json::to_value(selector).expect("it serializes"))
    }

    #[test]
    fn a_webhook_that_must_answer_does_not_stand_in_its_own_way() {
        let among = |operator: &str, values: &[&str]| {
            Some(
                json!({"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": operator, "values": values}]}),
            )
        };
        assert_eq!(selector(FailurePolicy::Ignore, "", &[]), Some(json!({})));
        assert_eq!(
            selector(FailurePolicy::Ignore, "", &["b", "a"]),
            among("NotIn", &["a", "b"])
        );
        for only in ["a", "suite", "kube-system"] {
            assert_eq!(
                selector(FailurePolicy::Ignore, only, &[]),
                among("In", &[only])
            );
        }
        assert_eq!(
            selector(FailurePolicy::Fail, "", &["suite"]),
            among("NotIn", &["kube-system", "suite"])
        );
        assert_eq!(selector(FailurePolicy::Fail, "a", &[]), among("In", &["a"]));
        for only in ["suite", "kube-system"] {
            assert_eq!(selector(FailurePolicy::Fail, only, &[]), None);
        }
    }
}
