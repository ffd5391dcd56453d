//! Preemption: evictions that make room on a node for a pending resize.
//!
//! A victim is a pod of the same node whose own VPA object allows its eviction now, within its
//! group's eviction tolerance and its disruption budgets. Its priority is at most that of the
//! pending pod, and lower in other namespaces: a tenant cannot displace pods of equal priority
//! that belong to other tenants. Pods of low priority go first, then pods that shrink, then large
//! ones, at most one of each group and budget in a pass, and no more than needed. The pending pod
//! is evicted itself if no victims suffice, or if more than one would be needed.
//!
//! Example: node n1 has 4000m of allocatable CPU, and the kubelet deferred a resize of web-0.
//!
//! ```text
//! pod      priority  CPU request
//! web-0           0        2000m  (pending, runs with 100m)
//! bank-0          0        1000m
//! batch-0        -5        1000m
//! batch-1        -5        1000m
//!
//! missing = 2000m + 3 * 1000m - 4000m = 1000m
//! victims = bank-0, batch-0            (batch-1 is of the group of batch-0)
//! without bank-0, 1000m are freed >= 1000m: bank-0 stays
//! without batch-0, 0m are freed   <  1000m: batch-0 is evicted
//! ```
//!
//! If 1500m were missing, both would be needed. Then web-0 is evicted itself if its VPA object
//! allows that, and both victims otherwise.

mod victims;

use std::collections::BTreeSet;
use std::sync::Arc;

use placement::Amounts;
use view::{Pod, Resources};

use crate::action::ActionReason;
use crate::limits::disruption_limit::Disruption;
use crate::plan::{PreemptionMethod, PreemptionPlan};
use crate::plan_builder::{EvictablePod, PassContext, PendingResize, PlanBuilder};
use crate::resize::pod_size::sized_containers;
use crate::settings::PreemptionMode;

use victims::select_victims;

/// Plans preemptions for all pending resizes, and with [`PreemptionMode::On`] their evictions.
/// `taken` are the unique identifiers of pods with an action in this pass; those of the evictions are
/// added.
pub(crate) fn plan_preemptions(
    builder: &mut PlanBuilder,
    taken: &mut BTreeSet<String>,
    context: PassContext,
) {
    for pending in std::mem::take(&mut builder.pending_resizes) {
        let pod = pending.pod.member.pod;
        if taken.contains(&pod.uid) {
            continue;
        }
        let planned = missing_on_node(&pending.pod, context, taken)
            .filter(|missing| *missing != Amounts::default())
            .and_then(|missing| method(&pending, missing, builder, taken, context));
        let Some((method, evictions)) = planned else {
            continue;
        };
        if context.settings.preemption == PreemptionMode::On {
            for eviction in evictions {
                if eviction.reserve(builder).is_err() {
                    break;
                }
                taken.insert(eviction.member.pod.uid.clone());
                let action = eviction.into_action(ActionReason::Preemption, None);
                builder.plan.actions.push(Arc::new(action));
            }
        }
        builder.plan.preemptions.push(PreemptionPlan {
            vpa: pending.pod.vpa,
            pod: pod.key.clone(),
            pod_uid: pod.uid.clone(),
            method,
        });
    }
}

/// Chooses between victims and the pending pod.
fn method<'a>(
    pending: &PendingResize<'a>,
    missing: Amounts,
    builder: &mut PlanBuilder<'a>,
    taken: &BTreeSet<String>,
    context: PassContext,
) -> Option<(PreemptionMethod, Vec<EvictablePod<'a>>)> {
    let victims = pending
        .fits_empty_node
        .then(|| select_victims(&pending.pod, missing, builder, taken, context))
        .flatten();
    let moves = pending.may_move
        && !context.is_backing_off(pending.pod.member.pod)
        && pending.pod.is_evictable(builder);
    match victims {
        Some(chosen) if chosen.len() <= 1 || !moves => {
            let keys = chosen.iter().map(|victim| victim.member.pod.key.clone());
            Some((PreemptionMethod::Victims(keys.collect()), chosen))
        }
        _ if moves => Some((PreemptionMethod::Itself, vec![pending.pod.clone()])),
        _ => None,
    }
}

/// The requests on the node of `pending`, beyond what is allocatable there. Pods that terminate, are
/// being evicted or are `taken` count as gone. `None` if the node is not known.
fn missing_on_node(
    pending: &EvictablePod,
    context: PassContext,
    taken: &BTreeSet<String>,
) -> Option<Amounts> {
    let view = context.snapshot.view;
    let name = pending.member.running.node.as_ref()?;
    let node = view.nodes.get(name)?;
    let stays = |pod: &Pod| {
        let in_flight = context.state.pending_disruption(&pod.uid);
        let is_here = pod
            .running
            .as_ref()
            .is_some_and(|running| running.node.as_ref() == Some(name) && !running.is_terminating);
        is_here
            && in_flight != Some(Disruption::Eviction)
            && !taken.contains(&pod.uid)
            && pod.uid != pending.member.pod.uid
    };
    let others = view.pods.iter().filter(|pod| stays(pod));
    let others = others.map(|pod| requested(pod));
    let own = sized_containers(pending.member.running, true)
        .filter_map(|container| container.requests.as_ref())
        .map(Amounts::of);
    let used = others.chain(own).fold(Amounts::default(), Amounts::plus);
    Some(used.minus(amounts(node.allocatable)))
}

pub(super) fn requested(pod: &Pod) -> Amounts {
    amounts(pod.requirements().requests)
}

pub(super) fn amounts(resources: Resources) -> Amounts {
    Amounts {
        cpu_millicores: resources.cpu.map_or(0, model::Cpu::millicores),
        memory_bytes: resources.memory.map_or(0, model::Memory::bytes),
    }
}
