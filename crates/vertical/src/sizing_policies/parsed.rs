//! Parsed policy, with its selectors. An invalid policy selects nothing, and its objects stay as
//! they are.

use std::collections::BTreeSet;

use api::limit_mode;
use api::sizing_policy::{LabelSelector, MAX_CUSTOM_KINDS, MAX_NAME};
use api::vpa::PodResourcePolicy;
use model::{ParseSelectorError, Requirement, Selector};
use sizing::MethodSettings;
use view::{Namespace, Policy, PolicyScope, WellKnown};

use super::desired;

/// Event, and reason of `Ready`, of a sizing policy: the selector cannot be used.
const INVALID_SELECTOR: &str = "InvalidSelector";
/// Event, and reason of `Ready`, of a sizing policy: the name of the policy cannot be a label
/// value.
const INVALID_NAME: &str = "InvalidName";
/// Event, and reason of `Ready`, of a sizing policy: `kinds` cannot be used.
const INVALID_KINDS: &str = "InvalidKinds";
/// Event, and reason of `Ready`, of a sizing policy: `sizing` has an invalid method, setting or
/// caution.
const INVALID_SIZING: &str = "InvalidSizing";
/// Event, and reason of `Ready`, of a sizing policy: `limitMode` cannot be used.
const INVALID_LIMIT_MODE: &str = "InvalidLimitMode";
/// Event, and reason of `Ready`, of a sizing policy: `resourcePolicy` cannot be used.
const INVALID_RESOURCE_POLICY: &str = "InvalidResourcePolicy";
/// Label with the name of a namespace, set by the API server.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Namespace of the cluster's own workloads.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// Label of the suite's own namespace and workloads.
const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "plimsoll");

pub(super) struct ParsedPolicy<'a> {
    pub(super) policy: &'a Policy,
    kinds: BTreeSet<WellKnown>,
    /// Other kinds and their API groups.
    custom_kinds: BTreeSet<(&'a str, &'a str)>,
    workloads: Selector,
    namespaces: Namespaces,
}

enum Namespaces {
    Own,
    With(Selector),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvalidPolicy {
    /// CamelCase reason of the condition.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl<'a> ParsedPolicy<'a> {
    pub(super) fn new(policy: &'a Policy) -> Result<Self, InvalidPolicy> {
        let invalid = |reason, message| InvalidPolicy { reason, message };
        let workloads = selector(policy.spec.selector.as_ref())
            .map_err(|error| invalid(INVALID_SELECTOR, format!("spec.selector: {error}")))?;
        let namespaces = match &policy.scope {
            PolicyScope::Namespace => Namespaces::Own,
            PolicyScope::Cluster(selected) => {
                Namespaces::With(selector(selected.as_ref()).map_err(|error| {
                    invalid(INVALID_SELECTOR, format!("spec.namespaceSelector: {error}"))
                })?)
            }
        };
        let spec = &policy.spec;
        let annotations = desired::annotations(spec);
        let annotations = annotations.iter().map(|(key, value)| (&**key, &**value));
        let sizing = MethodSettings::from_annotations(annotations).err();
        let limit_mode = spec.limit_mode.as_deref().map(limit_mode::parse);
        let name = (policy.key.name.len() > MAX_NAME)
            .then(|| format!("the name has more than {MAX_NAME} characters"));
        let in_field = |field, error| format!("spec.{field}: {error}");
        let problems = [
            (INVALID_NAME, name),
            (
                INVALID_KINDS,
                wrong_kinds(policy).map(|error| in_field("kinds", error)),
            ),
            (
                INVALID_SIZING,
                sizing.map(|error| in_field("sizing", error.to_string())),
            ),
            (
                INVALID_LIMIT_MODE,
                limit_mode
                    .and_then(Result::err)
                    .map(|error| in_field("limitMode", error.clone())),
            ),
            (
                INVALID_RESOURCE_POLICY,
                spec.resource_policy
                    .as_ref()
                    .and_then(wrong_bounds)
                    .map(|error| in_field("resourcePolicy", error)),
            ),
        ];
        let mut problems = problems.into_iter();
        if let Some((reason, message)) =
            problems.find_map(|(reason, message)| Some((reason, message?)))
        {
            return Err(invalid(reason, message));
        }
        Ok(Self {
            policy,
            kinds: policy.spec.well_known_kinds().into_iter().collect(),
            custom_kinds: policy.spec.custom_kinds().collect(),
            workloads,
            namespaces,
        })
    }

    /// Whether the policy applies in a namespace. `namespace` is `None` while unknown.
    pub(super) fn reaches(&self, name: &str, namespace: Option<&Namespace>) -> bool {
        match &self.namespaces {
            Namespaces::Own => self.policy.key.namespace == name,
            Namespaces::With(selector) => namespace.is_some_and(|namespace| {
                selector.matches(&namespace.labels)
                    && (!is_reserved(namespace) || names(selector, name))
            }),
        }
    }

    /// Whether the policy selects workloads of a kind.
    pub(super) fn means(&self, kind: WellKnown) -> bool {
        self.kinds.contains(&kind)
    }

    /// Kinds other than Kubernetes' own, with their API groups.
    pub(super) fn custom_kinds(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.custom_kinds.iter().copied()
    }

    /// Whether the policy selects a workload of another kind with a pod that has these labels.
    pub(super) fn selects_custom(
        &self,
        kind: (&str, &str),
        namespace: &str,
        labels: &model::Labels,
    ) -> bool {
        self.custom_kinds.contains(&kind)
            && self.workloads.matches(labels)
            && !self.leaves_out(namespace, labels)
    }

    /// Whether the policy selects a workload with these labels.
    pub(super) fn selects(&self, kind: WellKnown, namespace: &str, labels: &model::Labels) -> bool {
        self.means(kind) && self.workloads.matches(labels) && !self.leaves_out(namespace, labels)
    }

    /// Whether the workload belongs to the suite and the policy does not name its namespace. The
    /// namespace has the suite's label only if our manifest created it; the workloads always have
    /// it.
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

/// The first error in the kinds.
fn wrong_kinds(policy: &Policy) -> Option<String> {
    if policy.spec.custom_kinds().count() > MAX_CUSTOM_KINDS {
        return Some(format!("more than {MAX_CUSTOM_KINDS} kinds with a group"));
    }
    let mut custom = policy.spec.custom_kinds();
    // Kubernetes' own kinds are recognised whatever their group.
    let (kind, group) = custom.find(|(kind, _)| WellKnown::of_kind(kind).is_some())?;
    Some(format!(
        "{kind}.{group}: {kind} of another group is not supported"
    ))
}

/// Whether only a selector that names the namespace applies to it.
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

/// The first error that the VPA webhook would find in the objects of the policy.
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
