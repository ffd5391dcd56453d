//! Resizes that restore an earlier size: CPU after a startup boost, and memory after an OOM kill.

use std::sync::Arc;

use model::{Recommendation, ResourceName};

use super::resize::{REFUSED_PAUSE, Resize};
use super::{Acts, Candidate, Disruption, EPSILON, Member, VpaPass};
use crate::action::{Action, ActionKind, ActionReason, Skip, SkipReason};
use crate::plan_builder::PlanBuilder;
use crate::resize::memory_restore;
use crate::resize::proven_acts;
use crate::resize::qos;
use crate::resize::resize_patch;
use crate::resize::resize_patch::DesiredSizes;
use crate::resize::resize_status::ResizeStatus;
use crate::resize::size_change::SizeChange;
use crate::resize::startup_boost;

impl VpaPass<'_> {
    /// Ends the startup boost of a pod whose boost is over.
    pub(super) fn unboost(&mut self, member: &Member, builder: &mut PlanBuilder) -> Option<Action> {
        let now = self.context.now;
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
            resize = Resize::new(member.running, only_cpu(resize.sizes));
        }
        let patch = resize_patch::patch(member.running, &resize.sizes);
        let may = self
            .group(member)
            .is_some_and(|group| group.allows(resize.disruption, member.availability));
        let rejected_ago = self
            .context
            .state
            .rejected_ago(&member.pod.uid, &patch, now);
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
        let mut annotations = resize_patch::annotation_changes(member.running, self.spec, now);
        annotations.extend(resize_patch::limits_change(
            member.running,
            &self.limit_modes,
            &resize.sizes,
        ));
        let kind = ActionKind::Resize {
            patch,
            annotations,
            attempt: self.attempt(member.running),
        };
        let changes =
            SizeChange::to_sizes(member.running, &resize.sizes, &Recommendation::default());
        let reason = ActionReason::BoostExpired;
        Some(self.action(member, kind, reason, resize.disruption, changes))
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
        let is_rejected = self
            .context
            .state
            .rejected_ago(&member.pod.uid, &patch, self.context.now)
            .is_some();
        if is_rejected || qos::would_change(member.running, &resize.sizes) {
            return Err(SkipReason::MemoryInUse);
        }
        self.check_backoff(member, builder)?;
        self.reserve(member, resize.disruption, builder)?;
        let kind = ActionKind::Resize {
            patch,
            annotations: memory_restore::annotation_changes(self.context.now),
            attempt: self.attempt(member.running),
        };
        let changes =
            SizeChange::to_sizes(member.running, &resize.sizes, &candidate.recommendation);
        let reason = ActionReason::MemoryInUse;
        Ok(self.action(member, kind, reason, resize.disruption, changes))
    }

    /// Restores the memory of pods that were OOM killed after a resize. Returns the other pods.
    pub(super) fn revert_oom_killed<'m>(
        &mut self,
        members: Vec<&'m Member<'m>>,
        builder: &mut PlanBuilder,
    ) -> Vec<&'m Member<'m>> {
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
                let skip = Skip {
                    vpa: self.vpa.key.clone(),
                    pod: member.pod.key.clone(),
                    reason: SkipReason::ContainerStopped,
                };
                builder.plan.skips.push(Arc::new(skip));
                continue;
            }
            let patch = resize_patch::patch(member.running, &resize.sizes);
            let recently = self
                .context
                .state
                .rejected_ago(&member.pod.uid, &patch, self.context.now)
                .is_some();
            let may = !recently
                && resize.is_change
                && !self.only_relieves_without(resize.disruption)
                && self.check_backoff(member, builder).is_ok();
            if may && self.reserve(member, resize.disruption, builder).is_ok() {
                let annotations = memory_restore::annotation_changes(self.context.now);
                let kind = ActionKind::Resize {
                    patch,
                    annotations,
                    attempt: self.attempt(member.running),
                };
                let changes = SizeChange::to_sizes(member.running, &resize.sizes, &own);
                let reason = ActionReason::Revert;
                let action = self.action(member, kind, reason, resize.disruption, changes);
                builder.plan.actions.push(Arc::new(action));
            } else {
                others.push(member);
            }
        }
        others
    }
}

fn only_cpu(mut sizes: DesiredSizes) -> DesiredSizes {
    for size in sizes.iter_mut().flatten() {
        for list in [&mut size.requests, &mut size.limits] {
            list.remove(&ResourceName::Memory);
        }
    }
    sizes
}
