//! The pods of one VPA object with their availability, in groups by their direct owner.

use std::collections::BTreeMap;
use std::time::Duration;

use api::vpa::EffectiveUpdateMode;
use view::{Controller, Phase, Pod, Running, View};

use crate::clock::ClockReading;
use crate::limits::disruption_limit::{Disruption, Group, GroupSize, OwnerName, PodAvailability};
use crate::limits::group_size::{VpaInput, owner_name};
use crate::resize::pod_size::{effective, sized_containers, specified};
use crate::resize::rolling_update::Replacement;
use crate::resize::startup_boost;
use crate::settings::Settings;
use crate::state::{PendingAction, RolloutState};

#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) pod: &'a Pod,
    pub(super) running: &'a Running,
    pub(super) availability: PodAvailability,
    /// Index of its group; `None` if the group is not updated.
    pub(super) group: Option<usize>,
    pub(super) pending: Option<PendingAction>,
}

pub(super) struct MemberGroups<'a> {
    pub(super) groups: Vec<Group>,
    pub(super) members: Vec<Member<'a>>,
    /// Time until the next of the pods counts as available, which are ready already.
    pub(super) changes_in: Option<Duration>,
}

/// The pods of one VPA object in groups. Groups with too few pods are included if an action without
/// disruption is possible.
pub(super) fn members<'a>(
    input: &VpaInput<'a>,
    (mode, replacement): (EffectiveUpdateMode, Replacement),
    view: &View,
    state: &RolloutState,
    settings: &Settings,
    now: ClockReading,
) -> MemberGroups<'a> {
    let resizes = matches!(
        mode,
        EffectiveUpdateMode::InPlace | EffectiveUpdateMode::InPlaceOrRecreate
    );
    let includes_small = replacement == Replacement::RollingUpdate
        || resizes && settings.in_place_skip_disruption_budget;
    let mut changes_in = None;
    let mut by_owner: BTreeMap<OwnerName, Vec<Member>> = BTreeMap::new();
    for pod in input.vpa_pods.pods.values() {
        let Some(running) = pod.running.as_deref() else {
            continue;
        };
        let pending = state.pending(&pod.uid);
        let mut availability = availability(pod, running, pending);
        if let (Some(left), PodAvailability::Running { available }) =
            (min_ready_left(view, pod, running, now), &mut availability)
        {
            *available = false;
            changes_in = changes_in.into_iter().chain([left]).min();
        }
        by_owner
            .entry(owner_name(pod.owner.as_ref()))
            .or_default()
            .push(Member {
                pod,
                running,
                availability,
                group: None,
                pending,
            });
    }
    let policy = input.vpa_pods.vpa.object.spec.update_policy.as_ref();
    let required = policy.and_then(|policy| policy.min_replicas);
    let required = required.map_or(settings.min_replicas, i64::from);
    let mut all = MemberGroups {
        groups: Vec::new(),
        members: Vec::with_capacity(input.vpa_pods.pods.len()),
        changes_in,
    };
    for (owner, mut members) in by_owner {
        let group = input
            .group_sizes
            .get(&owner)
            .map(|size| group(&members, *size, required, settings));
        let are_enough = members.len() as i64 >= required;
        for member in &mut members {
            if let Some(pending) = &mut member.pending {
                let allows = group
                    .as_ref()
                    .is_some_and(|group| group.allows_retry(member.availability));
                pending.may_retry = pending.may_retry && are_enough && allows;
            }
        }
        let has_boost = |it: &Member| startup_boost::is_boosted(it.running);
        if let Some(group) = group.filter(|group| {
            !group.below_min_replicas || includes_small || members.iter().any(has_boost)
        }) {
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

fn group(
    members: &[Member],
    GroupSize { configured, peak }: GroupSize,
    required: i64,
    settings: &Settings,
) -> Group {
    let evicted = |member: &Member| {
        member
            .pending
            .is_some_and(|pending| pending.disruption == Disruption::Eviction)
    };
    let present: Vec<&Member> = members.iter().filter(|member| !evicted(member)).collect();
    let availabilities = present.iter().map(|member| member.availability);
    let mut group = Group::new(
        availabilities,
        configured,
        peak,
        required,
        settings.eviction_tolerance,
    );
    for member in present.iter().filter(|member| member.pending.is_some()) {
        group.reserve(Disruption::Resize, member.availability);
    }
    group
}

/// The rest of the time for which a ready pod must be so before its controller counts it as available
/// (`minReadySeconds`).
fn min_ready_left(
    view: &View,
    pod: &Pod,
    running: &Running,
    now: ClockReading,
) -> Option<Duration> {
    let ready_for = now.since(running.ready_since?);
    let left = controller_of(view, pod)?.min_ready.checked_sub(ready_for)?;
    (!left.is_zero()).then_some(left)
}

/// The direct controller of a pod, if it is of a well-known kind.
pub(super) fn controller_of<'a>(view: &'a View, pod: &Pod) -> Option<&'a Controller> {
    let owner = pod.owner.as_ref()?.workload(&pod.key.namespace);
    Some(view.controller_of(owner)?)
}

/// The availability of a pod. A pod with a container that restarts, or is about to by a resize, is
/// not available.
pub(super) fn availability(
    pod: &Pod,
    running: &Running,
    pending: Option<PendingAction>,
) -> PodAvailability {
    if pod.phase == Phase::Pending {
        return PodAvailability::Pending;
    }
    let restarts = pending.is_some_and(|pending| pending.disruption == Disruption::Restart);
    PodAvailability::Running {
        available: running.ready_since.is_some() && !restarts && !awaits_restart(running),
    }
}

/// Whether a resize that the kubelet has not completed restarts a container.
fn awaits_restart(running: &Running) -> bool {
    let is_seen = running.observed_generation >= running.generation;
    let is_over = is_seen && !running.resizes.iter().any(|condition| condition.is_true);
    !is_over
        && sized_containers(running, true).any(|container| {
            let (asked, reported) = (specified(container), effective(container));
            let mut names = container.restarts_for.iter();
            names
                .any(|name| asked.map(|list| list.get(name)) != reported.map(|list| list.get(name)))
        })
}
