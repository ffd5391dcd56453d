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

mod node_shortage;
mod victims;

use std::collections::BTreeSet;
use std::sync::Arc;

use view::{Pod, View};

use crate::action::ActionReason;
use crate::clock::ClockReading;
use crate::plan::{PreemptionMethod, PreemptionPlan};
use crate::plan_builder::{EvictablePod, PendingResize, PlanBuilder};
use crate::settings::PreemptionMode;
use crate::state::RolloutState;

use node_shortage::{NodeShortage, missing_on_node};
use victims::select_victims;

/// Plans preemptions for all pending resizes, and with [`PreemptionMode::On`] their evictions.
/// `taken` are the unique identifiers of pods with an action in this pass; those of the evictions are
/// added.
pub(crate) fn plan_preemptions(
    builder: &mut PlanBuilder,
    taken: &mut BTreeSet<String>,
    view: &View,
    state: &RolloutState,
    mode: PreemptionMode,
    now: ClockReading,
) {
    let is_backing_off = |pod: &Pod| state.backoffs.left(&pod.uid, now).is_some();
    for pending in std::mem::take(&mut builder.pending_resizes) {
        if taken.contains(&pending.pod.pod.uid) {
            continue;
        }
        let missing = missing_on_node(&pending.pod, view, state, taken);
        let planned = missing
            .filter(|missing| *missing != NodeShortage::default())
            .and_then(|missing| method(&pending, missing, builder, taken, &is_backing_off));
        let Some((method, evictions)) = planned else {
            continue;
        };
        if mode == PreemptionMode::On {
            for eviction in evictions {
                if !eviction.reserve(builder) {
                    break;
                }
                taken.insert(eviction.pod.uid.clone());
                let action = eviction.into_action(ActionReason::Preemption, None);
                builder.plan.actions.push(Arc::new(action));
            }
        }
        builder.plan.preemptions.push(PreemptionPlan {
            vpa: pending.pod.vpa,
            pod: pending.pod.pod.key.clone(),
            pod_uid: pending.pod.pod.uid.clone(),
            method,
        });
    }
}

/// Chooses between victims and the pending pod. `is_backing_off` holds for pods whose eviction was
/// refused a short time ago.
fn method<'a>(
    pending: &PendingResize<'a>,
    missing: NodeShortage,
    builder: &mut PlanBuilder<'a>,
    taken: &BTreeSet<String>,
    is_backing_off: &dyn Fn(&Pod) -> bool,
) -> Option<(PreemptionMethod, Vec<EvictablePod<'a>>)> {
    let victims = if pending.fits_empty_node {
        select_victims(&pending.pod, missing, builder, taken, is_backing_off)
    } else {
        None
    };
    let moves =
        pending.may_move && !is_backing_off(pending.pod.pod) && pending.pod.is_evictable(builder);
    match victims {
        Some(chosen) if chosen.len() <= 1 || !moves => {
            let evictions: Vec<EvictablePod> = chosen
                .into_iter()
                .map(|index| builder.victims[index].pod.clone())
                .collect();
            let keys = evictions.iter().map(|eviction| eviction.pod.key.clone());
            Some((PreemptionMethod::Victims(keys.collect()), evictions))
        }
        _ if moves => Some((PreemptionMethod::Itself, vec![pending.pod.clone()])),
        _ => None,
    }
}
