//! Evictions of pods that want another size.

use std::time::Duration;

use super::{Candidate, Disruption, Member, PassContext, VpaPass};
use crate::action::{Action, ActionKind, SkipReason};
use crate::plan_builder::PlanBuilder;
use crate::resize::rolling_update::Replacement;
use crate::resize::size_change::SizeChange;
use crate::resize::update_method;
use crate::selection::recent_pods::is_unreviewed;

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
        if let Some(left) = left.filter(|_| !is_begun) {
            builder.wake_within(left);
            return Err(SkipReason::WebhookNotCalled);
        }
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
        match kill.and_then(|_| state.oom_kill_exposure_left(uid, now)) {
            Some(left) => {
                builder.wake_within(left);
                Err(SkipReason::RecentOomKill)
            }
            None => Ok(()),
        }
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
        let (vpa, uid) = (&self.vpa.key, &member.pod.uid);
        state.ineffective_pause(vpa, uid, changes, &self.recommendation, now)
    }

    pub(super) fn evict_pod(
        &mut self,
        candidate: &Candidate,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let Member {
            pod,
            running,
            pending,
            ..
        } = candidate.member;
        if !self.may_evict(candidate.member) {
            return Err(Self::group_refusal(candidate.member));
        }
        self.check_backoff(candidate.member, builder)?;
        let changes = SizeChange::to_targets(
            running,
            &candidate.recommendation,
            self.context.settings.native_sidecars,
        );
        if pending.is_none() {
            if let Some(left) = self.ineffective_pause(candidate.member, &changes) {
                builder.wake_within(left);
                return Err(SkipReason::EvictionIneffective);
            }
            self.check_oom_kill(candidate, builder)?;
            self.reserve(candidate.member, Disruption::Eviction, builder)?;
        } else if let Some(reason) = builder.budgets.retry_refusal(pod, running) {
            return Err(reason);
        }
        let action = self.action(
            candidate.member,
            ActionKind::Evict,
            candidate.reason,
            Disruption::Eviction,
            changes,
        );
        Ok(Action {
            oom_kill: candidate.oom_kill.clone(),
            ..action
        })
    }
}
