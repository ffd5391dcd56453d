//! A policy, read: its selectors as selectors. One that cannot be used selects nothing, and what it
//! owns stays as it is.

use std::collections::BTreeSet;

use api::sizing_policy::{LabelSelector, MAX_NAME};
use api::vpa::PodResourcePolicy;
use model::{ParseSelectorError, Requirement, Selector};
use sizing::SizingPolicy;
use view::{Namespace, Policy, PolicyScope, WellKnown};

use super::wanted;

/// Holds the name of a namespace; the API server sets it.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Where the cluster's own workloads are.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// Label and value of the suite's own namespace and workloads.
const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "plimsoll");

/// A policy that can be used.
pub(super) struct Usable<'a> {
    pub(super) policy: &'a Policy,
    kinds: BTreeSet<WellKnown>,
    workloads: Selector,
    namespaces: Namespaces,
}

enum Namespaces {
    Own,
    With(Selector),
}

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unusable {
    /// In one word.
    pub(super) reason: &'static str,
    /// In a sentence.
    pub(super) message: String,
}

impl<'a> Usable<'a> {
    pub(super) fn new(policy: &'a Policy) -> Result<Self, Unusable> {
        let unusable = |reason, message| Unusable { reason, message };
        let workloads = selector(policy.spec.selector.as_ref())
            .map_err(|error| unusable("InvalidSelector", format!("spec.selector: {error}")))?;
        let namespaces = match &policy.scope {
            PolicyScope::Namespace => Namespaces::Own,
            PolicyScope::Cluster(selected) => {
                Namespaces::With(selector(selected.as_ref()).map_err(|error| {
                    unusable(
                        "InvalidSelector",
                        format!("spec.namespaceSelector: {error}"),
                    )
                })?)
            }
        };
        if policy.key.name.len() > MAX_NAME {
            return Err(unusable(
                "InvalidName",
                format!("the name has more than {MAX_NAME} characters"),
            ));
        }
        let annotations = wanted::annotations(&policy.spec);
        SizingPolicy::from_annotations(
            annotations
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        )
        .map_err(|error| unusable("InvalidSizing", format!("spec.sizing: {error}")))?;
        if let Some(message) = policy.spec.resource_policy.as_ref().and_then(wrong_bounds) {
            return Err(unusable(
                "InvalidResourcePolicy",
                format!("spec.resourcePolicy: {message}"),
            ));
        }
        let kinds = policy
            .spec
            .effective_kinds()
            .iter()
            .filter_map(|kind| WellKnown::of_kind(kind.as_str()));
        Ok(Self {
            policy,
            kinds: kinds.collect(),
            workloads,
            namespaces,
        })
    }

    /// Whether it holds in a namespace. `namespace` is absent while it is not known.
    pub(super) fn reaches(&self, name: &str, namespace: Option<&Namespace>) -> bool {
        match &self.namespaces {
            Namespaces::Own => self.policy.key.namespace == name,
            Namespaces::With(selector) => namespace.is_some_and(|namespace| {
                selector.matches(&namespace.labels)
                    && (!is_reserved(namespace) || names(selector, name))
            }),
        }
    }

    /// Whether it means workloads of a kind at all.
    pub(super) fn means(&self, kind: WellKnown) -> bool {
        self.kinds.contains(&kind)
    }

    /// Whether it selects a workload that has these labels.
    pub(super) fn selects(&self, kind: WellKnown, namespace: &str, labels: &model::Labels) -> bool {
        self.means(kind) && self.workloads.matches(labels) && !self.leaves_out(namespace, labels)
    }

    /// Whether the workload is the suite's own, which a policy of the cluster means only where it
    /// names the namespace. The namespace has the suite's label only where our manifest made it;
    /// the workloads always have.
    fn leaves_out(&self, namespace: &str, labels: &model::Labels) -> bool {
        match &self.namespaces {
            Namespaces::Own => false,
            Namespaces::With(selector) => {
                labels.get(PART_OF.0) == Some(PART_OF.1) && !names(selector, namespace)
            }
        }
    }
}

fn selector(selector: Option<&LabelSelector>) -> Result<Selector, ParseSelectorError> {
    selector.map_or(Ok(Selector::everything()), Selector::try_from)
}

/// Whether only a selector that names the namespace means it.
fn is_reserved(namespace: &Namespace) -> bool {
    namespace.name == SYSTEM_NAMESPACE || namespace.labels.get(PART_OF.0) == Some(PART_OF.1)
}

fn names(selector: &Selector, namespace: &str) -> bool {
    selector
        .requirements()
        .iter()
        .any(|requirement| match requirement {
            Requirement::In(key, values) => key == NAMESPACE_NAME && values.contains(namespace),
            _ => false,
        })
}

/// What VPA's webhook would refuse in each of the objects that the policy makes.
fn wrong_bounds(policy: &PodResourcePolicy) -> Option<String> {
    policy.container_policies.iter().find_map(|container| {
        if container.container_name.is_empty() {
            return Some("a container policy without containerName".to_owned());
        }
        let (resource, min, max) = container.min_allowed.iter().find_map(|(resource, min)| {
            let max = container.max_allowed.get(resource)?;
            (max < min).then_some((resource, min, max))
        })?;
        let name = &container.container_name;
        Some(format!(
            "container {name}: the maximum of {resource}, {max}, is below the minimum of {min}"
        ))
    })
}
