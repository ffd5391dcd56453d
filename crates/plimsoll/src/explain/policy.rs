//! The sizing policy that manages a VPA.

use std::collections::BTreeMap;

use api::sizing_policy::{SizingPolicyStatus, WorkloadConflict};
use api::vpa::VerticalPodAutoscaler as Vpa;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use sizing::SIZING_PREFIX;

use super::lines::conditions;

/// Prefix of the `apiVersion` of policies.
const GROUP: &str = "plimsoll.dev/";

#[derive(Clone, Debug, Default)]
pub(super) struct PolicyFacts {
    /// `SizingPolicy` or `ClusterSizingPolicy`.
    pub(super) kind: String,
    pub(super) name: String,
    /// Status; `None` if it has no status or could not be read.
    pub(super) status: Option<SizingPolicyStatus>,
}

pub(super) fn owner(vpa: &Vpa) -> Option<&OwnerReference> {
    vpa.owner_references().iter().find(|owner| {
        owner.controller == Some(true)
            && owner.api_version.starts_with(GROUP)
            && ["SizingPolicy", "ClusterSizingPolicy"].contains(&owner.kind.as_str())
    })
}

/// The policy with the settings of the sizing method, such as `caution`, from the annotations of the
/// VPA, and the objects that it reports in conflict with its VPA for the target, as `KIND/NAME`.
pub(super) fn describe(policy: &PolicyFacts, vpa: &Vpa) -> Value {
    let settings = vpa.annotations().iter();
    let settings =
        settings.filter_map(|(key, value)| Some((key.strip_prefix(SIZING_PREFIX)?, value)));
    let settings: BTreeMap<_, _> = settings.collect();
    let status = policy.status.as_ref();
    let target = &vpa.spec.target_ref;
    let namespace = vpa.namespace().unwrap_or_default();
    let is_of_target = |it: &&WorkloadConflict| {
        it.kind == target.kind && it.name == target.name && it.namespace == namespace
    };
    let counts = status.into_iter().map(|status| &status.counts);
    let conflicts = counts.flat_map(|it| it.conflicting.iter().chain(&it.overridden_by));
    let conflicts: Vec<&str> = conflicts
        .filter(is_of_target)
        .map(|it| it.by.as_str())
        .collect();
    json!({
        "kind": policy.kind,
        "name": policy.name,
        "settings": settings,
        "conditions": status.map_or_else(Vec::new, |status| conditions(&status.conditions)),
        "conflictsWith": conflicts,
    })
}
