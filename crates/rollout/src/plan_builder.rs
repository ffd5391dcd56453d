//! Builder of a pass's plan, with the pods that preemption and rebalancing choose from: those with a
//! pending resize, and those that may be evicted.

use std::sync::Arc;
use std::time::Duration;

use model::Recommendation;
use view::{ObjectKey, Pod};

use crate::action::{Action, ActionKind, ActionReason, Relocation, ResizeAttempt};
use crate::clock::ClockReading;
use crate::disruption_budgets::Budgets;
use crate::limits::disruption_limit::{Disruption, Group};
use crate::plan::{Plan, Snapshot};
use crate::settings::{PreemptionMode, Settings};
use crate::skip::SkipReason;
use crate::state::RolloutState;
use crate::vpa_pods::Member;

/// The input that all VPA objects share in a pass.
#[derive(Clone, Copy)]
pub(super) struct PassContext<'a> {
    pub(super) snapshot: &'a Snapshot<'a>,
    pub(super) state: &'a RolloutState,
    pub(super) settings: &'a Settings,
    pub(super) now: ClockReading,
}

impl PassContext<'_> {
    /// Whether pods may be evicted for other reasons than their own sizes.
    pub(super) fn evicts_for_others(&self) -> bool {
        self.settings.preemption != PreemptionMode::Off
            || (self.settings.rebalancing.is_some() && self.snapshot.node_load.is_some())
    }

    /// Whether an action on the pod was refused a short time ago.
    pub(super) fn is_backing_off(&self, pod: &Pod) -> bool {
        self.state.backoff_left(&pod.uid, self.now).is_some()
    }
}

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

    /// Makes the plan's `wake_in` at most `after`, if there is such a time.
    pub(super) fn wake_within(&mut self, after: impl Into<Option<Duration>>) {
        let wake_in = after.into().into_iter().chain(self.plan.wake_in);
        self.plan.wake_in = wake_in.min();
    }

    /// Refuses for `reason` until `left` is over.
    pub(super) fn wait(
        &mut self,
        left: Option<Duration>,
        reason: SkipReason,
    ) -> Result<(), SkipReason> {
        let Some(left) = left else { return Ok(()) };
        self.wake_within(left);
        Err(reason)
    }
}

/// A pod that may be evicted for another reason than its own size.
#[derive(Clone)]
pub(super) struct EvictablePod<'a> {
    pub(super) vpa: ObjectKey,
    pub(super) recommendation: Arc<Recommendation>,
    /// The pod, with the index of its group in the plan.
    pub(super) member: Member<'a>,
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
#[derive(Clone)]
pub(super) struct Victim<'a> {
    pub(super) pod: EvictablePod<'a>,
    /// Whether its replacement would be smaller.
    pub(super) shrinks: bool,
}

impl EvictablePod<'_> {
    /// Whether its group and the disruption budgets that cover it allow its eviction.
    pub(super) fn is_evictable(&self, builder: &mut PlanBuilder) -> bool {
        let (member, eviction) = (&self.member, Disruption::Eviction);
        let group = member.group.and_then(|index| builder.groups.get(index));
        let budgets = &mut builder.budgets;
        group.is_some_and(|group| group.allows(eviction, member.availability))
            && budgets.check(eviction, member.pod, member.running).is_ok()
    }

    /// Takes the eviction from its budgets and its group; an error if a budget does not allow it.
    pub(super) fn reserve(&self, builder: &mut PlanBuilder) -> Result<(), SkipReason> {
        let (member, eviction) = (&self.member, Disruption::Eviction);
        let budgets = &mut builder.budgets;
        budgets.reserve(eviction, member.pod, member.running)?;
        if let Some(group) = member.group.and_then(|index| builder.groups.get_mut(index)) {
            group.reserve(eviction, member.availability);
        }
        Ok(())
    }

    /// Its eviction for the sake of another pod or a node.
    pub(super) fn into_action(
        self,
        reason: ActionReason,
        relocation: Option<Relocation>,
    ) -> Action {
        Action {
            vpa: self.vpa,
            pod: self.member.pod.key.clone(),
            pod_uid: self.member.pod.uid.clone(),
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
