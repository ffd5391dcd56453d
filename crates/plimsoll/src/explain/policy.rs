//! The sizing policy that manages a VPA.

use std::collections::BTreeMap;

use api::sizing_policy::{SizingPolicyStatus, WorkloadConflict};
use api::vpa::VerticalPodAutoscaler as Vpa;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use serde::Serialize;
use sizing::SIZING_PREFIX;

use super::lines::{Condition, conditions, plain};

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

/// The sizing policy that manages a VPA.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyLine {
    pub(super) kind: String,
    pub(super) name: String,
    /// Settings of the sizing method, such as `caution`, from the annotations of the VPA.
    pub(super) settings: BTreeMap<String, String>,
    pub(super) conditions: Vec<Condition>,
    /// Objects that the policy reports in conflict with its VPA for the target, as `KIND/NAME`.
    pub(super) conflicts_with: Vec<String>,
}

pub(super) fn owner(vpa: &Vpa) -> Option<&OwnerReference> {
    vpa.owner_references().iter().find(|owner| {
        owner.controller == Some(true)
            && owner.api_version.starts_with(GROUP)
            && ["SizingPolicy", "ClusterSizingPolicy"].contains(&owner.kind.as_str())
    })
}

pub(super) fn describe(policy: &PolicyFacts, vpa: &Vpa) -> PolicyLine {
    let settings = vpa.annotations().iter().filter_map(|(key, value)| {
        let key = key.strip_prefix(SIZING_PREFIX)?;
        Some((plain(key), plain(value)))
    });
    let status = policy.status.as_ref();
    let target = &vpa.spec.target_ref;
    let namespace = vpa.namespace().unwrap_or_default();
    let is_of_target = |it: &&WorkloadConflict| {
        it.kind == target.kind && it.name == target.name && it.namespace == namespace
    };
    let counts = status.into_iter().map(|status| &status.counts);
    let conflicts = counts.flat_map(|it| it.conflicting.iter().chain(&it.overridden_by));
    let conflicts = conflicts.filter(is_of_target).map(|it| plain(&it.by));
    PolicyLine {
        kind: plain(&policy.kind),
        name: plain(&policy.name),
        settings: settings.collect(),
        conditions: status.map_or_else(Vec::new, |status| conditions(&status.conditions)),
        conflicts_with: conflicts.collect(),
    }
}
