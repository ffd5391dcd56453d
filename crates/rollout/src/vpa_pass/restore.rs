//! Resizes that restore an earlier size: CPU after a startup boost, and memory after an OOM kill.

use model::Recommendation;

use super::resize::{REFUSED_PAUSE, Resize};
use super::{Acts, Candidate, Disruption, EPSILON, Member, PassContext, VpaPass};
use crate::action::{Action, ActionReason};
use crate::plan_builder::PlanBuilder;
use crate::resize::resize_patch::{self, DesiredSizes};
use crate::resize::resize_status::ResizeStatus;
use crate::resize::{memory_restore, proven_acts, qos, startup_boost};
use crate::skip::SkipReason;

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
                memory_restore::remove_memory(size);
            }
            resize = Resize::new(member.running, resize.sizes);
        }
        let patch = resize_patch::patch(member.running, &resize.sizes);
        let may = self
            .group(member)
            .is_some_and(|group| group.allows(resize.disruption, member.availability));
        let rejected = state.rejected(&member.pod.uid, &patch, now);
        let retry_in = rejected
            .and_then(|(ago, _)| REFUSED_PAUSE.checked_sub(ago))
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
        let rejected = state.rejected(&member.pod.uid, &patch, now);
        if rejected.is_some() || qos::would_change(member.running, &resize.sizes) {
            return Err(SkipReason::MemoryInUse);
        }
        self.check_backoff(member, builder)?;
        self.reserve(member, resize.disruption, builder)?;
        let annotations = memory_restore::annotation_changes(now);
        let (reason, own) = (ActionReason::MemoryInUse, &candidate.recommendation);
        Ok(self.resize_action(member, &resize, patch, annotations, reason, own))
    }

    /// Restores the memory of a pod that was OOM killed after a resize; `None` where nothing is
    /// restored now.
    pub(super) fn revert(&mut self, member: &Member, builder: &mut PlanBuilder) -> Option<()> {
        let PassContext { state, now, .. } = self.context;
        if member.pending.is_some() || member.group.is_none() {
            return None;
        }
        let own = self.pod_recommendation(member);
        let back = memory_restore::sizes_to_restore(member.pod, member.running, &own)?;
        let resize = Resize::new(member.running, back);
        if proven_acts::stopped(member.pod, member.running, &resize.sizes).is_some() {
            self.record(member, Err(SkipReason::ContainerStopped), builder);
            return Some(());
        }
        let patch = resize_patch::patch(member.running, &resize.sizes);
        if state.rejected(&member.pod.uid, &patch, now).is_some()
            || !resize.is_change
            || self.only_relieves_without(resize.disruption)
            || self.check_backoff(member, builder).is_err()
            || self.reserve(member, resize.disruption, builder).is_err()
        {
            return None;
        }
        let annotations = memory_restore::annotation_changes(now);
        let reason = ActionReason::Revert;
        let action = self.resize_action(member, &resize, patch, annotations, reason, &own);
        self.record(member, Ok(action), builder);
        Some(())
    }
}
