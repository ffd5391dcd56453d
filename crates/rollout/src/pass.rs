//! One pass: upstream's `RunOnce`, without its requests, over the VPA objects about which something
//! has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::budgets::Budgets;
use super::clock::ClockReading;
use super::decision_cache::{DecisionCache, VpaDecision};
use super::group_size::{GroupSize, OwnerName};
use super::index::{Index, VpaPods};
use super::plan_builder::PlanBuilder;
use super::preemption::plan_preemptions;
use super::settings::{PreemptionMode, Settings};
use super::state::RolloutState;
use super::vpa_pass::{PassContext, VpaPass};
use super::vpa_pause::check_pause;
use super::{Plan, Snapshot};

/// A VPA object that is decided about.
pub(super) struct VpaInput<'a> {
    /// The VPA object with its pods.
    pub(super) vpa_pods: &'a VpaPods,
    /// The number of pods that each group should have, by owner; a group without one is left alone.
    pub(super) group_sizes: BTreeMap<OwnerName<'a>, GroupSize>,
    /// Unique identifiers of the owners.
    pub(super) owners: Vec<String>,
    /// The time after which one of its groups has settled.
    pub(super) settles_in: Option<Duration>,
    /// Whether the decision may be another one in each pass although nothing changes.
    pub(super) is_time_dependent: bool,
}

impl<'a> VpaInput<'a> {
    fn new(vpa_pods: &'a VpaPods, index: &Index) -> Self {
        let covering = vpa_pods
            .pods
            .values()
            .flat_map(|pod| index.covering(&pod.key));
        // Its status says until when evictions count.
        let is_disrupted = |id| {
            index
                .budget(id)
                .is_some_and(|budget_pods| !budget_pods.budget.disrupted.is_empty())
        };
        let is_time_dependent = covering.into_iter().any(is_disrupted);
        Self {
            vpa_pods,
            group_sizes: BTreeMap::new(),
            owners: Vec::new(),
            settles_in: None,
            is_time_dependent,
        }
    }
}

/// See [`super::decide`].
pub(super) fn pass(
    snapshot: &Snapshot<'_>,
    state: &mut RolloutState,
    settings: &Settings,
    now: ClockReading,
) -> Plan {
    let view = snapshot.view;
    // Pods make room for pods of other namespaces.
    if snapshot.pause.is_some() || settings.preemption != PreemptionMode::Off {
        state.forget_decisions();
    }
    let changes = state.change_tracker.changes(view, snapshot.recommendations);
    state.observe(&changes.pods, view, now);
    state
        .settling
        .observe(view, &changes, settings.settling_time, now);
    state.forget_vpas(&changes.vpas);
    if snapshot.pause.is_some() {
        return Plan::default();
    }
    let known = state
        .decisions
        .take()
        .filter(|known| known.clocks_agree(now));
    let is_full = known.is_none();
    let mut decisions =
        known.unwrap_or_else(|| DecisionCache::new(Index::build(view, settings), now));
    if is_full {
        state.forget_missing_vpas(view);
        state.windows = std::mem::take(&mut state.windows).next();
    } else {
        decisions.index.update(view, &changes, settings);
        decisions.mark_due(now);
    }
    decisions.index.expand_marks();
    let (removed, mut removed_owners) = decisions.index.take_removed();

    let index = &decisions.index;
    let mut all: Vec<VpaInput> = index
        .marked()
        .into_iter()
        .map(|vpa_pods| VpaInput::new(vpa_pods, index))
        .collect();
    removed_owners.extend(
        all.iter()
            .flat_map(|input| input.vpa_pods.owners.iter().cloned()),
    );
    state
        .group_sizes
        .update(&mut all, (!is_full).then_some(removed_owners), view, now);
    // Even where there are no pods, so that what is known of windows is kept.
    let windows = &mut state.windows;
    let pauses = all
        .iter()
        .map(|input| check_pause(&input.vpa_pods.vpa, view, windows, now));
    let pauses: Vec<_> = pauses.collect();
    let mut builder = PlanBuilder::new(Budgets::of(index, state, now));
    let mut decided = Vec::with_capacity(all.len());
    for (input, pause) in all.iter().zip(pauses) {
        let VpaInput {
            vpa_pods,
            owners,
            settles_in,
            is_time_dependent,
            ..
        } = input;
        let decision = (!vpa_pods.pods.is_empty()).then(|| {
            VpaPass::run(
                PassContext {
                    snapshot,
                    state,
                    settings,
                    now,
                },
                input,
                pause,
                &mut builder,
            );
            if let Some(settles_in) = settles_in {
                builder.wake_within(*settles_in);
            }
            VpaDecision::new(std::mem::take(&mut builder.plan), *is_time_dependent, now)
        });
        decided.push((vpa_pods.order.clone(), owners.clone(), decision));
    }
    if settings.preemption != PreemptionMode::Off {
        let actions = decided
            .iter()
            .filter_map(|(_, _, decision)| decision.as_ref())
            .flat_map(VpaDecision::actions);
        let taken: BTreeSet<String> = actions.map(|action| action.pod_uid.clone()).collect();
        plan_preemptions(&mut builder, taken, view, state, settings.preemption, now);
    }
    let PlanBuilder {
        plan: preemptions,
        infeasible,
        ..
    } = builder;

    for vpa in &removed {
        decisions.remove(vpa);
    }
    let count = decided.len();
    for (vpa, owners, decision) in decided {
        decisions.index.mark_decided(&vpa, owners);
        decisions.replace(vpa, decision);
    }
    decisions.index.clear_budgets();
    for (vpa, uid, attempt) in infeasible {
        if state.record_infeasible(&vpa, &uid, &attempt) {
            decisions.index.mark_vpa(&vpa.namespace, &vpa.name);
        }
    }
    let mut plan = decisions.plan(now);
    state.decisions = Some(decisions);
    plan.decided = count;
    plan.actions.extend(preemptions.actions);
    plan.preemptions = preemptions.preemptions;
    plan.actions
        .sort_by_key(|action| !action.reason.is_urgent());
    plan
}
