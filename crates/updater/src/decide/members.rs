//! The pods of one autoscaler with what they do now, in groups by their direct owner.

use std::collections::BTreeMap;

use api::vpa::VerticalPodAutoscalerSpec;
use cluster::{ObjectKey, Owner, Phase, Pod, Running, Scale, ScaleKey, View, WellKnown};
use model::WorkloadRef;

use super::group::{Disruption, Group, Standing, required_replicas};
use super::matching::Matched;
use super::memory::{Memory, Pending};
use super::settings::Settings;
use super::size::sized;

/// A pod of an autoscaler.
#[derive(Clone)]
pub(super) struct Member<'a> {
    pub(super) pod: &'a Pod,
    pub(super) running: &'a Running,
    pub(super) standing: Standing,
    /// Which group it is in; none if the group is left alone.
    pub(super) group: Option<usize>,
    /// What is under way for it and not seen yet.
    pub(super) pending: Option<Pending>,
}

/// The groups that are dealt with, and all pods.
pub(super) struct Members<'a> {
    pub(super) groups: Vec<Group>,
    pub(super) members: Vec<Member<'a>>,
}

/// Whether a group with too few pods is dealt with all the same, as far as nothing is disrupted.
pub(super) type KeepsSmall<'a> = dyn Fn(&[Member<'_>]) -> bool + 'a;

/// The pods of one autoscaler.
pub(super) fn members<'a>(
    matched: &Matched<'a>,
    view: &View,
    memory: &Memory,
    settings: &Settings,
    keeps_small: &KeepsSmall,
) -> Members<'a> {
    let mut by_owner: BTreeMap<Option<(&str, &str)>, Vec<Member>> = BTreeMap::new();
    for pod in matched.pods.iter().copied() {
        let Some(running) = pod.running.as_deref() else { continue };
        let pending = memory.pending(&pod.uid);
        let standing = standing(pod, running, pending);
        let owner = pod.owner.as_ref().map(|owner| (owner.kind.as_str(), owner.name.as_str()));
        by_owner.entry(owner).or_default().push(Member { pod, running, standing, group: None, pending });
    }
    let spec = &matched.autoscaler.object.spec;
    let mut all = Members { groups: Vec::new(), members: Vec::with_capacity(matched.pods.len()) };
    for mut members in by_owner.into_values() {
        if let Some(group) = group(&members, view, spec, settings, keeps_small) {
            let index = all.groups.len();
            all.groups.push(group);
            for member in &mut members {
                member.group = Some(index);
            }
        }
        all.members.extend(members);
    }
    all
}

/// The group as numbers, unless it is left alone.
fn group(
    members: &[Member],
    view: &View,
    spec: &VerticalPodAutoscalerSpec,
    settings: &Settings,
    keeps_small: &KeepsSmall,
) -> Option<Group> {
    let evicted = |member: &Member| member.pending.is_some_and(|pending| pending.disruption == Disruption::Eviction);
    let present: Vec<&Member> = members.iter().filter(|member| !evicted(member)).collect();
    let first = members.first()?;
    let configured = configured(view, &first.pod.key.namespace, first.pod.owner.as_ref(), present.len() as i64)?;
    let required = required_replicas(spec.update_policy.as_ref().and_then(|policy| policy.min_replicas), settings);
    let standings = present.iter().map(|member| member.standing);
    let mut group = Group::new(standings, configured, required, settings.eviction_tolerance);
    if group.below_min_replicas && !keeps_small(members) {
        return None;
    }
    for member in present.iter().filter(|member| member.pending.is_some()) {
        group.take(Disruption::Resize, member.standing);
    }
    Some(group)
}

/// How many pods the owner should have; none if nobody can say, and then its pods are left alone.
///
/// Upstream takes 0 for owners that are not well known, and with that no care at all; here their scale subresource says it.
fn configured(view: &View, namespace: &str, owner: Option<&Owner>, live: i64) -> Option<i64> {
    let owner = owner?;
    let replicas = match WellKnown::of_kind(&owner.kind) {
        Some(WellKnown::Job) => return Some(live),
        Some(kind) => view.controller(kind, &ObjectKey::new(namespace, &owner.name))?.replicas?,
        None => {
            let workload = WorkloadRef {
                api_version: owner.api_version.clone(),
                kind: owner.kind.clone(),
                namespace: namespace.to_owned(),
                name: owner.name.clone(),
            };
            match view.scale(&ScaleKey::of(&workload).ok()?)? {
                Scale::Found { replicas, .. } => (*replicas)?,
                Scale::NotFound { .. } | Scale::Failed { .. } => return None,
            }
        }
    };
    (replicas > 0).then_some(i64::from(replicas))
}

/// What a pod does now. While a container of it is being restarted, or is about to be, it does not serve.
pub(super) fn standing(pod: &Pod, running: &Running, pending: Option<Pending>) -> Standing {
    if pod.phase == Phase::Pending {
        return Standing::Pending;
    }
    let restarts = pending.is_some_and(|pending| pending.disruption == Disruption::Restart);
    Standing::Running { serves: running.ready_since.is_some() && !restarts && !awaits_restart(running) }
}

/// Whether a resize that the kubelet has not completed restarts a container.
fn awaits_restart(running: &Running) -> bool {
    let is_seen = running.observed_generation >= running.generation;
    let is_over = is_seen && !running.resizes.iter().any(|condition| condition.holds);
    !is_over
        && sized(running, true).any(|container| {
            let Some([requests, limits]) = &container.reported else { return false };
            container.restarts_for.iter().any(|name| {
                let asked = |list: &Option<model::ResourceList>| list.as_ref().and_then(|list| list.get(name)).cloned();
                asked(&container.requests).as_ref() != requests.get(name)
                    || asked(&container.limits).as_ref() != limits.get(name)
            })
        })
}
