//! The namespaces whose objects are reviewed, and their selector.

use anyhow::ensure;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::FailurePolicy;
use super::selection::normal;

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
    use serde_json::json;

    use super::*;

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
