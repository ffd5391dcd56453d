//! Rolling updates of the Deployment in place of evictions.

use std::sync::Arc;

use view::ObjectKey;

use super::{Candidate, Disruption, PassContext, VpaPass};
use crate::action::{Action, ActionKind, ActionReason};
use crate::limits::disruption_limit::PodAvailability;
use crate::plan_builder::PlanBuilder;
use crate::resize::rolling_update::{RollingUpdate, deployment_of};
use crate::skip::SkipReason;

impl VpaPass<'_> {
    /// Changes the Deployment's pod template, once for all pods. While that is not possible, a pod
    /// that is not available after an OOM kill is evicted: nothing is lost by it.
    pub(super) fn roll_or_evict(
        &mut self,
        candidate: &Candidate,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let serves = PodAvailability::Running { available: true };
        match self.roll(candidate, builder) {
            Err(SkipReason::RollingUpdateRefused)
                if candidate.reason == ActionReason::QuickOom
                    && candidate.member.availability != serves =>
            {
                self.evict_pod(candidate, builder)
            }
            rolled => rolled,
        }
    }

    fn roll(
        &mut self,
        candidate: &Candidate,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let PassContext { state, now, .. } = self.context;
        let pod = candidate.member.pod;
        let owner = deployment_of(pod, self.context.snapshot.view)
            .filter(|owner| owner.name == self.spec.target_ref.name)
            .ok_or(SkipReason::InvalidReplacement)?;
        if self.has_rolled || candidate.member.pending.is_some() {
            return Err(SkipReason::RollingUpdatePending);
        }
        let first_seen = state.first_seen(&pod.uid);
        (state.rolling_updates)
            .refusal(&self.vpa.key, first_seen, &self.recommendation, now)
            .map_err(|(reason, left)| {
                builder.wake_within(left);
                reason
            })?;
        self.check_oom_kill(candidate, builder)?;
        self.has_rolled = true;
        let kind = ActionKind::RollingUpdate(Arc::new(RollingUpdate {
            deployment: ObjectKey::new(&pod.key.namespace, &owner.name),
            uid: owner.uid.clone(),
        }));
        Ok(self.replacing_action(candidate, kind, Disruption::Resize))
    }
}
