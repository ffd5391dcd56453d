//! Resizes that restore an earlier size: CPU after a startup boost, and memory after an OOM kill.

use model::{Recommendation, ResourceName};

use super::resize::{REFUSED_PAUSE, Resize};
use super::{Acts, Candidate, Disruption, EPSILON, Member, PassContext, VpaPass};
use crate::action::{Action, ActionReason, SkipReason};
use crate::plan_builder::PlanBuilder;
use crate::resize::resize_patch::{self, DesiredSizes};
use crate::resize::resize_status::ResizeStatus;
use crate::resize::{memory_restore, proven_acts, qos, startup_boost};

impl VpaPass<'_> {
    /// Ends the startup boost of a pod whose boost is over.
    pub(super) fn unboost(&mut self, member: &Member, builder: &mut PlanBuilder) -> Option<Action> {
        let PassContext { state, now, .. } = self.context;
        let is_over = startup_boost::boosted(member.running)
            .any(|name| startup_boost::is_expired(member.running, self.spec, name, now));
        self.recheck_in(
            startup_boost::expires_in(member.running, self.spec, now).map(|left| left.max(EPSILON)),
        );
        if !is_over
            || member.pending.is_some()
            || ResizeStatus::of(member.running) != ResizeStatus::NotResizing
        {
            return None;
        }
        let mut resize = self.desired_resize(member);
        if self.acts == Acts::Relief {
            // Memory waits for the end of the pause.
            for size in resize.sizes.iter_mut().flatten() {
                size.requests.remove(&ResourceName::Memory);
                size.limits.remove(&ResourceName::Memory);
            }
            resize = Resize::new(member.running, resize.sizes);
        }
        let patch = resize_patch::patch(member.running, &resize.sizes);
        let may = self
            .group(member)
            .is_some_and(|group| group.allows(resize.disruption, member.availability));
        let rejected_ago = state.rejected_ago(&member.pod.uid, &patch, now);
        let retry_in = rejected_ago
            .and_then(|ago| REFUSED_PAUSE.checked_sub(ago))
            .filter(|left| !left.is_zero());
        self.recheck_in(retry_in);
        if !may
            || retry_in.is_some()
            || self.only_relieves_without(resize.disruption)
            || self.check_backoff(member, builder).is_err()
            || self.reserve(member, resize.disruption, builder).is_err()
        {
            return None;
        }
        let annotations = self.annotation_changes(member, &resize);
        let (reason, own) = (ActionReason::BoostExpired, &Recommendation::default());
        Some(self.resize_action(member, &resize, patch, annotations, reason, own))
    }

    /// Whether a pause allows only relief without this disruption.
    fn only_relieves_without(&self, disruption: Disruption) -> bool {
        self.acts == Acts::Relief && disruption != Disruption::Resize
    }

    /// Gives up the memory of a resize, so that the kubelet carries out the rest of it.
    pub(super) fn keep_memory(
        &mut self,
        candidate: &Candidate,
        sizes: DesiredSizes,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let member = candidate.member;
        let resize = Resize::new(member.running, sizes);
        let patch = resize_patch::patch(member.running, &resize.sizes);
        let PassContext { state, now, .. } = self.context;
        let rejected_ago = state.rejected_ago(&member.pod.uid, &patch, now);
        if rejected_ago.is_some() || qos::would_change(member.running, &resize.sizes) {
            return Err(SkipReason::MemoryInUse);
        }
        self.check_backoff(member, builder)?;
        self.reserve(member, resize.disruption, builder)?;
        let annotations = memory_restore::annotation_changes(now);
        let (reason, own) = (ActionReason::MemoryInUse, &candidate.recommendation);
        Ok(self.resize_action(member, &resize, patch, annotations, reason, own))
    }

    /// Restores the memory of pods that were OOM killed after a resize. Returns the other pods.
    pub(super) fn revert_oom_killed<'m>(
        &mut self,
        members: Vec<&'m Member<'m>>,
        builder: &mut PlanBuilder,
    ) -> Vec<&'m Member<'m>> {
        let PassContext { state, now, .. } = self.context;
        let mut others = Vec::with_capacity(members.len());
        for member in members {
            let own = self.pod_recommendation(member);
            let back = memory_restore::sizes_to_restore(member.pod, member.running, &own);
            let Some(back) = back.filter(|_| member.pending.is_none() && member.group.is_some())
            else {
                others.push(member);
                continue;
            };
            let resize = Resize::new(member.running, back);
            if proven_acts::stopped(member.pod, member.running, &resize.sizes).is_some() {
                self.record(member, Err(SkipReason::ContainerStopped), builder);
                continue;
            }
            let patch = resize_patch::patch(member.running, &resize.sizes);
            let rejected_ago = state.rejected_ago(&member.pod.uid, &patch, now);
            let may = rejected_ago.is_none()
                && resize.is_change
                && !self.only_relieves_without(resize.disruption)
                && self.check_backoff(member, builder).is_ok();
            if may && self.reserve(member, resize.disruption, builder).is_ok() {
                let annotations = memory_restore::annotation_changes(now);
                let reason = ActionReason::Revert;
                let action = self.resize_action(member, &resize, patch, annotations, reason, &own);
                self.record(member, Ok(action), builder);
            } else {
                others.push(member);
            }
        }
        others
    }
}
