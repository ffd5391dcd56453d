//! One pass: upstream's `RunOnce` without its I/O, over the VPA objects that changes concern.

use std::collections::BTreeSet;

use view::ObjectKey;

use super::action::ResizeAttempt;
use super::clock::ClockReading;
use super::decision_cache::{DecisionCache, VpaDecision};
use super::disruption_budgets::Budgets;
use super::index::{Index, VpaOrder};
use super::plan_builder::PlanBuilder;
use super::preemption::plan_preemptions;
use super::rebalancing::plan_moves;
use super::settings::{PreemptionMode, Settings};
use super::state::RolloutState;
use super::vpa_input::VpaInput;
use super::vpa_pass::{PassContext, VpaPass};
use super::vpa_pause::check_pause;
use super::{Plan, Snapshot};

/// The results of a pass.
struct Decided {
    /// The decisions, each with the owners of the VPA object's pods; `None` without pods.
    decisions: Vec<(VpaOrder, Vec<String>, Option<VpaDecision>)>,
    /// Preemptions and moves, with their evictions.
    preemptions: Plan,
    /// Resizes that the kubelet found infeasible: VPA object, pod UID and attempt.
    infeasible: Vec<(ObjectKey, String, ResizeAttempt)>,
}

/// See [`super::decide`].
pub(super) fn pass(
    snapshot: &Snapshot<'_>,
    state: &mut RolloutState,
    settings: &Settings,
    now: ClockReading,
) -> Plan {
    let view = snapshot.view;
    // Preemption and rebalancing evict pods for those of other namespaces, and a pause leaves out
    // acts, so each such pass is a full one, and its decisions are none for the next.
    let keeps_decisions = snapshot.pause.is_none()
        && settings.preemption == PreemptionMode::Off
        && snapshot.node_load.is_none();
    if !keeps_decisions {
        state.forget_decisions();
    }
    let changes = state.change_tracker.changes(view, snapshot.recommendations);
    state.observe(&changes.pods, view, now);
    state
        .settling
        .observe(view, &changes, settings.settling_time, now);
    state.forget_vpas(&changes.vpas);
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
    let mut cache = known.unwrap_or_else(|| DecisionCache::new(Index::build(view, settings), now));
    if is_full {
        state.forget_missing_vpas(view);
        state.windows = std::mem::take(&mut state.windows).next();
    } else {
        cache.index.update(view, &changes, settings);
        cache.mark_due(now);
    }
    cache.index.expand_marks();
    let (removed, removed_owners) = cache.index.take_removed();
    let removed_owners = (!is_full).then_some(removed_owners);
    let decided = decide_marked(&cache.index, removed_owners, snapshot, state, settings, now);
    for vpa in &removed {
        cache.remove(vpa);
    }
    let plan = store(decided, cache, state, settings, now);
    if !keeps_decisions {
        state.forget_decisions();
    }
    plan
}

/// Decides about the marked VPA objects. `removed_owners` are the owners of pods that no VPA object
/// controls any more; `None` in a full pass.
fn decide_marked(
    index: &Index,
    removed_owners: Option<Vec<String>>,
    snapshot: &Snapshot<'_>,
    state: &mut RolloutState,
    settings: &Settings,
    now: ClockReading,
) -> Decided {
    let view = snapshot.view;
    let marked = index.marked().into_iter();
    let mut inputs: Vec<VpaInput> = marked
        .map(|vpa_pods| VpaInput::new(vpa_pods, index))
        .collect();
    let earlier_owners = inputs.iter().flat_map(|input| &input.vpa_pods.owners);
    let removed_owners =
        removed_owners.map(|removed| removed.into_iter().chain(earlier_owners.cloned()).collect());
    state
        .group_sizes
        .update(&mut inputs, removed_owners, view, now);
    // Also for VPA objects without pods, so that the cache of windows keeps theirs.
    let windows = &mut state.windows;
    let pauses: Vec<_> = inputs
        .iter()
        .map(|input| check_pause(&input.vpa_pods.vpa, view, windows, now))
        .collect();
    let state = &*state;
    let context = PassContext {
        snapshot,
        state,
        settings,
        now,
    };
    let mut builder = PlanBuilder::new(Budgets::of(index, state, now));
    let mut decisions = Vec::with_capacity(inputs.len());
    for (input, pause) in inputs.iter().zip(pauses) {
        let decision = (!input.vpa_pods.pods.is_empty()).then(|| {
            VpaPass::run(context, input, pause, &mut builder);
            if let Some(settles_in) = input.settles_in {
                builder.wake_within(settles_in);
            }
            let plan = std::mem::take(&mut builder.plan);
            VpaDecision::new(plan, input.is_time_dependent, now)
        });
        decisions.push((input.vpa_pods.order.clone(), input.owners.clone(), decision));
    }
    let actions = decisions
        .iter()
        .filter_map(|(_, _, decision)| decision.as_ref())
        .flat_map(VpaDecision::actions);
    let mut taken: BTreeSet<String> = actions.map(|action| action.pod_uid.clone()).collect();
    let moves = snapshot.pause.is_none();
    if moves && settings.preemption != PreemptionMode::Off {
        plan_preemptions(
            &mut builder,
            &mut taken,
            view,
            state,
            settings.preemption,
            now,
        );
    }
    if let (true, Some(rebalancing), Some(load)) =
        (moves, &settings.rebalancing, snapshot.node_load)
    {
        plan_moves(&mut builder, &taken, context, rebalancing, load);
    }
    let PlanBuilder {
        plan: preemptions,
        infeasible,
        ..
    } = builder;
    Decided {
        decisions,
        preemptions,
        infeasible,
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
    let Decided {
        decisions,
        preemptions,
        infeasible,
    } = decided;
    let count = decisions.len();
    for (vpa, owners, decision) in decisions {
        cache.index.mark_decided(&vpa, owners);
        cache.replace(vpa, decision);
    }
    cache.index.clear_budgets();
    for (vpa, uid, attempt) in infeasible {
        if state.record_infeasible(&vpa, &uid, &attempt) {
            cache.index.mark_vpa(&vpa.namespace, &vpa.name);
        }
    }
    let mut plan = cache.plan(now);
    state.decisions = Some(cache);
    plan.decided = count;
    plan.actions.extend(preemptions.actions);
    plan.preemptions = preemptions.preemptions;
    plan.rebalancing = preemptions.rebalancing;
    plan.actions
        .sort_by_key(|action| !action.reason.is_urgent());
    if settings.paces_restarts {
        let mut paces = std::mem::take(&mut state.paces);
        paces.hold(&mut plan, |uid| state.pending(uid).is_some(), now);
        state.paces = paces;
    }
    plan
}
