//! The pods that preemption and rebalancing choose from: those with a pending resize, and those that
//! may be evicted.

use std::sync::Arc;

use model::Recommendation;
use view::{ObjectKey, Pod, Running};

use super::action::{Action, ActionKind, ActionReason, Relocation};
use super::disruption_limit::{Disruption, PodAvailability};
use super::plan_builder::PlanBuilder;

/// A pod that may be evicted for another reason than its own size.
#[derive(Clone)]
pub(super) struct EvictablePod<'a> {
    pub(super) vpa: ObjectKey,
    pub(super) recommendation: Arc<Recommendation>,
    pub(super) pod: &'a Pod,
    pub(super) running: &'a Running,
    pub(super) availability: PodAvailability,
    /// Index of its group in the plan; `None` if the group is left alone.
    pub(super) group: Option<usize>,
}

/// A pod whose resize the kubelet deferred, or found infeasible on the node.
pub(super) struct PendingResize<'a> {
    pub(super) pod: EvictablePod<'a>,
    /// Whether the node could hold the pod if it was empty.
    pub(super) fits_empty_node: bool,
    /// Whether the pod's VPA object allows its eviction now.
    pub(super) may_move: bool,
}

/// A pod that may be evicted for a pending resize of another pod.
pub(super) struct Victim<'a> {
    pub(super) pod: EvictablePod<'a>,
    /// Whether its replacement would be smaller.
    pub(super) shrinks: bool,
}

impl EvictablePod<'_> {
    /// Whether its group and the disruption budgets that cover it allow its eviction.
    pub(super) fn is_evictable(&self, builder: &mut PlanBuilder) -> bool {
        let group = self.group.and_then(|index| builder.groups.get(index));
        group.is_some_and(|group| group.allows(Disruption::Eviction, self.availability))
            && builder
                .budgets
                .refusal(Disruption::Eviction, self.pod, self.running)
                .is_none()
    }

    /// Takes the eviction from its budgets and its group; `false` if a budget does not allow it.
    pub(super) fn reserve(&self, builder: &mut PlanBuilder) -> bool {
        let refusal = builder
            .budgets
            .refusal(Disruption::Eviction, self.pod, self.running);
        if refusal.is_some() {
            return false;
        }
        builder
            .budgets
            .reserve(Disruption::Eviction, self.pod, self.running);
        if let Some(group) = self.group.and_then(|index| builder.groups.get_mut(index)) {
            group.reserve(Disruption::Eviction, self.availability);
        }
        true
    }

    /// Its eviction for the sake of another pod or a node.
    pub(super) fn into_action(
        self,
        reason: ActionReason,
        relocation: Option<Relocation>,
    ) -> Action {
        Action {
            vpa: self.vpa,
            pod: self.pod.key.clone(),
            pod_uid: self.pod.uid.clone(),
            kind: ActionKind::Evict,
            reason,
            changes: Vec::new(),
            recommendation: self.recommendation,
            disruption: Disruption::Eviction,
            oom_kill: None,
            relocation,
        }
    }
}
