//! One pass over all autoscalers: upstream's `RunOnce`, without its requests.

use api::vpa::EffectiveUpdateMode;

use super::act::Why;
use super::budgets::Budgets;
use super::matching::{Matched, matched};
use super::memory::Memory;
use super::moment::Moment;
use super::settings::Settings;
use super::turn::Turn;
use super::{Plan, Scene};

/// See [`super::decide`].
pub(super) fn pass(scene: &Scene<'_>, memory: &mut Memory, settings: &Settings, now: Moment) -> Plan {
    let live = scene.view.pods.iter().filter_map(|pod| {
        let running = pod.running.as_deref().filter(|running| !running.is_terminating)?;
        Some((pod.as_ref(), running))
    });
    memory.observe(live, now);
    let mut plan = Plan::default();
    if scene.halt.is_some() {
        return plan;
    }
    let mut budgets = Budgets::of(scene.view);
    let all = matched(scene.view, |autoscaler| {
        autoscaler.object.spec.effective_update_mode() == EffectiveUpdateMode::Recreate
    });
    spend_pending(&all, memory, &mut budgets, now);
    for matched in all.iter().filter(|matched| !matched.pods.is_empty()) {
        Turn::new(scene, memory, settings, now, matched).take(&mut budgets, &mut plan);
    }
    plan.acts.sort_by_key(|act| act.why != Why::QuickOom);
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
