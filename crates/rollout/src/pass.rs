//! One pass: upstream's `RunOnce`, without its requests, over the VPA objects about which something
//! has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::budgets::Budgets;
use super::clock::ClockReading;
use super::decisions::{Decision, Decisions};
use super::group_size::{GroupSize, OwnerName};
use super::index::{Controlled, Index};
use super::plan_builder::PlanBuilder;
use super::preemption::plan_preemptions;
use super::settings::{PreemptionMode, Settings};
use super::state::RolloutState;
use super::vpa_pass::{PassContext, VpaPass};
use super::vpa_pause::check_pause;
use super::{Plan, Snapshot};

/// A VPA object that is decided about.
pub(super) struct Matched<'a> {
    /// The VPA object with its pods.
    pub(super) controlled: &'a Controlled,
    /// The number of pods that each group should have, by owner; a group without one is left alone.
    pub(super) group_sizes: BTreeMap<OwnerName<'a>, GroupSize>,
    /// Unique identifiers of the owners.
    pub(super) owners: Vec<String>,
    /// The time after which one of its groups has settled.
    pub(super) settles_in: Option<Duration>,
    /// Whether the decision may be another one in each pass although nothing changes.
    pub(super) changes_with_time: bool,
}

impl<'a> Matched<'a> {
    fn new(controlled: &'a Controlled, index: &Index) -> Self {
        let covering = controlled
            .pods
            .values()
            .flat_map(|pod| index.covering(&pod.key));
        // Its status says until when evictions count.
        let is_disrupted = |id| {
            index
                .budget(id)
                .is_some_and(|covered| !covered.budget.disrupted.is_empty())
        };
        let changes_with_time = covering.into_iter().any(is_disrupted);
        Self {
            controlled,
            group_sizes: BTreeMap::new(),
            owners: Vec::new(),
            settles_in: None,
            changes_with_time,
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
    state.settling.look(view, &changes, settings.settling, now);
    state.forget_vpas(&changes.vpas);
    if snapshot.pause.is_some() {
        return Plan::default();
    }
    let known = state.decisions.take().filter(|known| known.keeps_time(now));
    let is_whole = known.is_none();
    let mut decisions = known.unwrap_or_else(|| Decisions::new(Index::of(view, settings), now));
    if is_whole {
        state.forget_missing_vpas(view);
        state.windows = std::mem::take(&mut state.windows).next();
    } else {
        decisions.index.update(view, &changes, settings);
        decisions.mark_due(now);
    }
    decisions.index.close();
    let (gone, mut released) = decisions.index.take_gone();

    let index = &decisions.index;
    let mut all: Vec<Matched> = index
        .marked()
        .into_iter()
        .map(|controlled| Matched::new(controlled, index))
        .collect();
    released.extend(
        all.iter()
            .flat_map(|matched| matched.controlled.owners.iter().cloned()),
    );
    state
        .group_sizes
        .update(&mut all, (!is_whole).then_some(released), view, now);
    // Even where there are no pods, so that what is known of windows is kept.
    let windows = &mut state.windows;
    let pauses = all
        .iter()
        .map(|matched| check_pause(&matched.controlled.vpa, view, windows, now));
    let pauses: Vec<_> = pauses.collect();
    let mut builder = PlanBuilder::new(Budgets::of(index, state, now));
    let mut decided = Vec::with_capacity(all.len());
    for (matched, pause) in all.iter().zip(pauses) {
        let Matched {
            controlled,
            owners,
            settles_in,
            changes_with_time,
            ..
        } = matched;
        let decision = (!controlled.pods.is_empty()).then(|| {
            VpaPass::run(
                PassContext {
                    snapshot,
                    state,
                    settings,
                    now,
                },
                matched,
                pause,
                &mut builder,
            );
            if let Some(settles_in) = settles_in {
                builder.wake_within(*settles_in);
            }
            Decision::new(std::mem::take(&mut builder.plan), *changes_with_time, now)
        });
        decided.push((controlled.order.clone(), owners.clone(), decision));
    }
    if settings.preemption != PreemptionMode::Off {
        let actions = decided
            .iter()
            .filter_map(|(_, _, decision)| decision.as_ref())
            .flat_map(Decision::actions);
        let taken: BTreeSet<String> = actions.map(|action| action.pod_uid.clone()).collect();
        plan_preemptions(&mut builder, taken, view, state, settings.preemption, now);
    }
    let PlanBuilder {
        plan: preemptions,
        infeasible,
        ..
    } = builder;

    for vpa in &gone {
        decisions.remove(vpa);
    }
    let count = decided.len();
    for (vpa, owners, decision) in decided {
        decisions.index.decided(&vpa, owners);
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
