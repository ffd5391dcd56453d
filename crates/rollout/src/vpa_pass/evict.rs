//! Evictions of pods that want another size.

use std::time::Duration;

use super::{Candidate, Disruption, Member, PassContext, VpaPass};
use crate::action::{Action, ActionKind};
use crate::plan_builder::PlanBuilder;
use crate::resize::rolling_update::Replacement;
use crate::resize::size_change::SizeChange;
use crate::resize::update_method;
use crate::selection::recent_pods::is_unreviewed;
use crate::skip::SkipReason;

impl VpaPass<'_> {
    /// Whether the pod's group allows its eviction. An eviction of unknown outcome may be sent
    /// again: it is counted already.
    pub(super) fn may_evict(&self, member: &Member) -> bool {
        match member.pending {
            Some(pending) if pending.disruption == Disruption::Eviction => pending.may_retry,
            Some(_) => false,
            None => {
                let resizing_for = self.resizing_for(member);
                update_method::may_evict(
                    self.group(member),
                    member.availability,
                    member.running,
                    resizing_for,
                )
            }
        }
    }

    /// Evicts the pod, or has its Deployment replace it.
    pub(super) fn evict(
        &mut self,
        candidate: &Candidate,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let PassContext { state, now, .. } = self.context;
        let is_begun = candidate.member.pending.is_some();
        let left = state.missed_reviews.pause_left(&self.vpa.key, now);
        builder.wait(left.filter(|_| !is_begun), SkipReason::WebhookNotCalled)?;
        match self.replacement {
            Replacement::Eviction => self.evict_pod(candidate, builder),
            Replacement::RollingUpdate => self.roll_or_evict(candidate, builder),
            Replacement::Invalid => Err(SkipReason::InvalidReplacement),
        }
    }

    /// Refuses while an OOM kill has not been seen long enough by others.
    pub(super) fn check_oom_kill(
        &self,
        candidate: &Candidate,
        builder: &mut PlanBuilder,
    ) -> Result<(), SkipReason> {
        let PassContext { state, now, .. } = self.context;
        let uid = &candidate.member.pod.uid;
        let kill = candidate.oom_kill.as_ref();
        let left = kill.and_then(|_| state.oom_kill_exposure_left(uid, now));
        builder.wait(left, SkipReason::RecentOomKill)
    }

    /// The rest of the pause before the eviction of a pod that needs changes, if an earlier eviction
    /// did not bring them about although the webhook reviewed the pod.
    pub(super) fn ineffective_pause(
        &self,
        member: &Member,
        changes: &[SizeChange],
    ) -> Option<Duration> {
        if is_unreviewed(self.vpa, member.pod) {
            return None;
        }
        let PassContext { state, now, .. } = self.context;
        let (vpa, first_seen) = (&self.vpa.key, state.first_seen(&member.pod.uid));
        (state.evictions).pause_left(vpa, first_seen, changes, &self.recommendation, now)
    }

    pub(super) fn evict_pod(
        &mut self,
        candidate: &Candidate,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let member = candidate.member;
        if !self.may_evict(member) {
            return Err(Self::group_refusal(member));
        }
        self.check_backoff(member, builder)?;
        let action = self.replacing_action(candidate, ActionKind::Evict, Disruption::Eviction);
        if member.pending.is_none() {
            let left = self.ineffective_pause(member, &action.changes);
            builder.wait(left, SkipReason::EvictionIneffective)?;
            self.check_oom_kill(candidate, builder)?;
            self.reserve(member, Disruption::Eviction, builder)?;
        } else {
            builder.budgets.check_retry(member.pod, member.running)?;
        }
        Ok(action)
    }

    /// The action by which a pod of the recommended size replaces this one.
    pub(super) fn replacing_action(
        &self,
        candidate: &Candidate,
        kind: ActionKind,
        disruption: Disruption,
    ) -> Action {
        let (member, reason) = (candidate.member, candidate.reason);
        let changes = self.target_changes(member, &candidate.recommendation);
        Action {
            oom_kill: candidate.oom_kill.clone(),
            ..self.action(member, kind, reason, disruption, changes)
        }
    }
}
