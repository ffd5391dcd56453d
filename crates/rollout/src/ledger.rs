//! What a pass has put down so far.

use std::time::Duration;

use view::ObjectKey;

use super::Plan;
use super::action::ResizeAttempt;
use super::budgets::Budgets;
use super::group::Group;
use super::preemption::{PendingResize, Victim};

/// What a pass has put down so far.
pub(super) struct Ledger<'a> {
    pub(super) budgets: Budgets<'a>,
    pub(super) plan: Plan,
    /// Pods, by autoscaler and unique identifier, whose nodes can never hold what is recommended.
    pub(super) infeasible: Vec<(ObjectKey, String, ResizeAttempt)>,
    /// Pods that wait for room on their nodes.
    pub(super) pending_resizes: Vec<PendingResize<'a>>,
    /// Pods that may be evicted for others.
    pub(super) victims: Vec<Victim<'a>>,
    /// The groups of all turns.
    pub(super) groups: Vec<Group>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(budgets: Budgets<'a>) -> Self {
        Self {
            budgets,
            plan: Plan::default(),
            infeasible: Vec::new(),
            pending_resizes: Vec::new(),
            victims: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Something is due after so long.
    pub(super) fn wake_in(&mut self, after: Duration) {
        let sooner = self.plan.wake_in.map_or(after, |known| known.min(after));
        self.plan.wake_in = Some(sooner);
    }
}
