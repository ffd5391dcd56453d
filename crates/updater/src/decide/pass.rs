//! One pass over all autoscalers: upstream's `RunOnce`, without its requests.

use api::vpa::EffectiveUpdateMode;

use super::boost;
use super::budgets::Budgets;
use super::hold::hold;
use super::ledger::Ledger;
use super::make_room::make_room;
use super::matching::{Matched, matched};
use super::memory::Memory;
use super::moment::Moment;
use super::settings::Settings;
use super::turn::{Context, Turn};
use super::{Plan, Scene};

/// See [`super::decide`].
pub(super) fn pass(scene: &Scene<'_>, memory: &mut Memory, settings: &Settings, now: Moment) -> Plan {
    let live = scene.view.pods.iter().filter_map(|pod| {
        let running = pod.running.as_deref().filter(|running| !running.is_terminating)?;
        Some((pod.as_ref(), running))
    });
    memory.observe(live, now);
    memory.settling.look(scene.view, settings.settling, now);
    memory.keep_autoscalers(|key| scene.view.autoscalers.get(key).is_some());
    if scene.halt.is_some() {
        return Plan::default();
    }
    let mut all = matched(scene.view, |autoscaler| {
        let spec = &autoscaler.object.spec;
        let mode = spec.effective_update_mode();
        let changes_pods = !matches!(mode, EffectiveUpdateMode::Off | EffectiveUpdateMode::Initial);
        changes_pods || (settings.startup_boost && boost::is_asked_for(spec))
    });
    let settles_in = memory.sizes.note(&mut all, scene.view, now);
    // Even where nothing is to be done, so that what is known of windows is kept.
    let windows = &mut memory.windows;
    let holds = all.iter().map(|Matched { autoscaler, .. }| {
        hold(autoscaler, scene.view, scene.frozen.contains(autoscaler.uid()), windows, now)
    });
    let holds: Vec<_> = holds.collect();
    let mut budgets = Budgets::of(scene.view, memory);
    spend_pending(&all, memory, &mut budgets, now);
    let mut ledger = Ledger::new(budgets);
    if let Some(settles_in) = settles_in {
        ledger.wake_in(settles_in);
    }
    for (matched, hold) in all.iter().zip(holds).filter(|(matched, _)| !matched.pods.is_empty()) {
        Turn::take(Context { scene, memory, settings, now }, matched, hold, &mut ledger);
    }
    make_room(&mut ledger, scene.view, memory, settings.make_room, now);
    let Ledger { mut plan, infeasible, .. } = ledger;
    for (autoscaler, uid, attempt) in infeasible {
        memory.note_infeasible(&autoscaler, &uid, &attempt);
    }
    plan.acts.sort_by_key(|act| !act.why.is_urgent());
    plan
}

/// What is on its way and does not show yet counts against the budgets before anything new does.
fn spend_pending(all: &[Matched], memory: &Memory, budgets: &mut Budgets, now: Moment) {
    for pod in all.iter().flat_map(|matched| &matched.pods) {
        if let (Some(pending), Some(running)) = (memory.pending(&pod.uid), &pod.running) {
            budgets.spend(pending.disruption, pod, running, now);
        }
    }
}
