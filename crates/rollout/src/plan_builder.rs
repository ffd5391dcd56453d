//! Builder of a pass's plan.

use std::time::Duration;

use view::ObjectKey;

use super::Plan;
use super::action::ResizeAttempt;
use super::disruption_budgets::Budgets;
use super::disruption_limit::Group;
use super::preemption_candidates::{EvictablePod, PendingResize, Victim};

/// Collects the results of a pass.
pub(super) struct PlanBuilder<'a> {
    pub(super) budgets: Budgets<'a>,
    pub(super) plan: Plan,
    /// Resizes that the kubelet found infeasible: VPA object, pod UID and attempt.
    pub(super) infeasible: Vec<(ObjectKey, String, ResizeAttempt)>,
    /// Resizes that wait for room on their nodes.
    pub(super) pending_resizes: Vec<PendingResize<'a>>,
    /// Pods that may be evicted for pending resizes of others, or moved.
    pub(super) victims: Vec<Victim<'a>>,
    /// Pods that no VPA object controls and that may be moved.
    pub(super) unmanaged: Vec<EvictablePod<'a>>,
    /// The groups of all VPA objects, where preemption or rebalancing needs them.
    pub(super) groups: Vec<Group>,
}

impl<'a> PlanBuilder<'a> {
    pub(super) fn new(budgets: Budgets<'a>) -> Self {
        Self {
            budgets,
            plan: Plan::default(),
            infeasible: Vec::new(),
            pending_resizes: Vec::new(),
            victims: Vec::new(),
            unmanaged: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Makes the plan's `wake_in` at most `after`.
    pub(super) fn wake_within(&mut self, after: Duration) {
        let sooner = self.plan.wake_in.map_or(after, |known| known.min(after));
        self.plan.wake_in = Some(sooner);
    }
}
