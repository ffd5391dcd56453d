//! One pass: upstream's `RunOnce` without its I/O, over the VPA objects that changes concern.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::vpa::EffectiveUpdateMode;
use view::{Matched, MatchedScope, ObjectKey, Pod, Vpa, VpaOrder, VpaPods};

use crate::action::ResizeAttempt;
use crate::clock::ClockReading;
use crate::disruption_budgets::Budgets;
use crate::limits::group_size::VpaInput;
use crate::limits::vpa_pause::check_pause;
use crate::moves::preemption::plan_preemptions;
use crate::moves::rebalancing::{opts_in, plan_moves};
use crate::plan::{Plan, Recommendations, Snapshot};
use crate::plan_builder::{PassContext, PlanBuilder};
use crate::selection::recent_pods::newest_review;
use crate::settings::{PreemptionMode, Settings};
use crate::state::RolloutState;
use crate::state::decision_cache::{DecisionCache, VpaDecision};
use crate::vpa_pass::VpaPass;

struct Decided {
    /// The decisions about VPA objects with pods.
    decisions: Vec<(VpaOrder, VpaDecision)>,
    /// Preemptions and moves with their evictions, and the number of VPA objects.
    plan: Plan,
    /// Resizes that the kubelet found infeasible: VPA object, pod UID and attempt.
    infeasible: Vec<(ObjectKey, String, ResizeAttempt)>,
}

/// Decides about the VPA objects that changes since the last call with this `state` concern, and
/// about those with something due; about all of them after [`RolloutState::forget_decisions`].
/// Returns the plan for all VPA objects. `now` must not be before that of earlier calls.
pub fn decide(
    snapshot: &Snapshot<'_>,
    state: &mut RolloutState,
    settings: &Settings,
    now: ClockReading,
) -> Plan {
    let view = snapshot.view;
    // Preemption and rebalancing evict pods for those of other namespaces, and a pause leaves out
    // acts: what such a pass decided does not hold in the next one, which decides about all anew.
    let keeps_decisions = snapshot.pause.is_none()
        && settings.preemption == PreemptionMode::Off
        && snapshot.node_load.is_none();
    if !keeps_decisions {
        state.forget_decisions();
    }
    let changes = state.change_tracker.changes(view);
    let earlier = replaced(&mut state.recommendations, snapshot.recommendations);
    let earlier_health = std::mem::replace(&mut state.health, snapshot.health.clone());
    state.observe(&changes.pods, view, now);
    state
        .settling
        .observe(view, &changes, settings.settling_time, now);
    if changes.vpas.iter().any(|change| change.new.is_none()) {
        state.forget_missing_vpas(view);
    }
    if snapshot.pause.is_some_and(|pause| !pause.allows_relief()) {
        return Plan::default();
    }
    state.rebalancing.begin_pass(now);
    if let (Some(rebalancing), Some(load)) = (&settings.rebalancing, snapshot.node_load) {
        state
            .rebalancing
            .observe(&load.load, &rebalancing.hot_nodes, now);
    }
    let known = state
        .decisions
        .take()
        .filter(|known| known.clocks_agree(now));
    let is_full = known.is_none();
    let counts_vpa = |vpa: &Vpa| updates_pods(vpa, settings);
    let counts_pod = |pod: &Pod| settings.rebalancing.is_some() && opts_in(pod, view);
    let scope = MatchedScope {
        vpa: &counts_vpa,
        pod: &counts_pod,
    };
    let mut cache = known.unwrap_or_else(|| DecisionCache {
        matched: Matched::build(view, scope),
        by_vpa: BTreeMap::new(),
        began: now,
    });
    if is_full {
        state.forget_missing_vpas(view);
        state.windows.age();
    } else {
        cache.matched.update(view, &changes, scope);
        if let Some(earlier) = earlier {
            let now = snapshot.recommendations;
            cache.matched.mark_if(|vpa_pods| {
                let uid = vpa_pods.vpa.uid();
                earlier.get(uid).map(Arc::as_ptr) != now.get(uid).map(Arc::as_ptr)
            });
        }
        cache.mark_read(&earlier_health, snapshot.health);
        cache.mark_due(now);
    }
    cache.matched.expand_marks();
    let outdated = cache.take_outdated();
    let outdated = (!is_full).then_some(outdated);
    let decided = decide_marked(&cache.matched, outdated, snapshot, state, settings, now);
    let plan = store(decided, cache, state, settings, now);
    if !keeps_decisions {
        state.forget_decisions();
    }
    plan
}

/// Whether a VPA object may update running pods.
fn updates_pods(vpa: &Vpa, settings: &Settings) -> bool {
    let spec = &vpa.object.spec;
    let is_passive = matches!(
        spec.effective_update_mode(),
        EffectiveUpdateMode::Off | EffectiveUpdateMode::Initial
    );
    !is_passive || (settings.startup_boost && spec.has_startup_boost())
}

/// Replaces recommendations, and returns the earlier ones if any was added, changed or removed.
fn replaced(known: &mut Recommendations, now: &Recommendations) -> Option<Recommendations> {
    let mut pairs = known.iter().zip(now);
    let is_same = known.len() == now.len()
        && pairs.all(|(old, new)| old.0 == new.0 && Arc::ptr_eq(old.1, new.1));
    (!is_same).then(|| std::mem::replace(known, now.clone()))
}

/// Decides about the marked VPA objects. `outdated_owners` are the owners of the pods of these and of
/// removed ones at the last decision; `None` in a full pass.
fn decide_marked(
    matched: &Matched,
    outdated_owners: Option<Vec<String>>,
    snapshot: &Snapshot<'_>,
    state: &mut RolloutState,
    settings: &Settings,
    now: ClockReading,
) -> Decided {
    let view = snapshot.view;
    let marked = matched.marked().into_iter();
    let mut inputs: Vec<VpaInput> = marked
        .map(|vpa_pods| VpaInput::new(vpa_pods, matched))
        .collect();
    state
        .group_sizes
        .update(&mut inputs, outdated_owners, view, now);
    // Also for VPA objects without pods, so that the cache of windows keeps theirs.
    let windows = &mut state.windows;
    let pauses: Vec<_> = inputs
        .iter()
        .map(|input| check_pause(&input.vpa_pods.vpa, view, windows, now))
        .collect();
    for VpaInput { vpa_pods, .. } in &inputs {
        let VpaPods { vpa, pods, .. } = vpa_pods;
        let newest = newest_review(vpa, pods.values().map(Arc::as_ref));
        state.missed_reviews.observe(&vpa.key, newest);
    }
    let state = &*state;
    let context = PassContext {
        snapshot,
        state,
        settings,
        now,
    };
    let mut builder = PlanBuilder::new(Budgets::of(matched, state, now));
    let mut decisions = Vec::with_capacity(inputs.len());
    for (input, pause) in inputs.iter().zip(pauses) {
        if input.vpa_pods.pods.is_empty() {
            continue;
        }
        VpaPass::run(context, input, pause, &mut builder);
        builder.wake_within(input.settles_in);
        let plan = std::mem::take(&mut builder.plan);
        let decision = VpaDecision {
            due: plan.wake_in.map(|left| now.monotonic.saturating_add(left)),
            plan,
            owners: input.owners.clone(),
            is_time_dependent: input.is_time_dependent,
        };
        decisions.push((input.vpa_pods.order.clone(), decision));
    }
    builder.plan.decided = inputs.len();
    let plans = decisions.iter().map(|(_, decision)| &decision.plan);
    let actions = plans.flat_map(|plan| &plan.actions);
    let mut taken: BTreeSet<String> = actions.map(|action| action.pod_uid.clone()).collect();
    let moves = snapshot.pause.is_none();
    if moves && settings.preemption != PreemptionMode::Off {
        plan_preemptions(&mut builder, &mut taken, context);
    }
    if let (true, Some(rebalancing), Some(load)) =
        (moves, &settings.rebalancing, snapshot.node_load)
    {
        plan_moves(&mut builder, &taken, context, rebalancing, load);
    }
    Decided {
        decisions,
        plan: builder.plan,
        infeasible: builder.infeasible,
    }
}

/// Puts decisions into the cache and the state. Returns the plan for all VPA objects.
fn store(
    decided: Decided,
    mut cache: DecisionCache,
    state: &mut RolloutState,
    settings: &Settings,
    now: ClockReading,
) -> Plan {
    cache.by_vpa.extend(decided.decisions);
    cache.matched.clear_marks();
    for (vpa, uid, attempt) in decided.infeasible {
        if state.record_infeasible(&vpa, &uid, &attempt) {
            cache.matched.mark_vpa(&vpa.namespace, &vpa.name);
        }
    }
    let mut plan = cache.plan(now);
    state.decisions = Some(cache);
    plan.decided = decided.plan.decided;
    plan.actions.extend(decided.plan.actions);
    plan.preemptions = decided.plan.preemptions;
    plan.rebalancing = decided.plan.rebalancing;
    plan.actions
        .sort_by_key(|action| !action.reason.is_urgent());
    if settings.paces_restarts {
        let mut paces = std::mem::take(&mut state.paces);
        paces.hold(&mut plan, |uid| state.pending(uid).is_some(), now);
        state.paces = paces;
    }
    plan
}
