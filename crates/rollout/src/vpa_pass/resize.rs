//! In-place resizes, and evictions where a resize is no use.

use std::sync::Arc;
use std::time::Duration;

use api::vpa::EffectiveUpdateMode;
use json_patch::Patch;
use model::{LimitMode, Recommendation, ResourceName};
use sizing::ContainerSize;
use view::Running;

use super::{Candidate, Disruption, EPSILON, Group, Member, PassContext, VpaPass};
use crate::action::{Action, ActionKind, ActionReason, NodeCapacity, ResizeAttempt, SkipReason};
use crate::plan_builder::PlanBuilder;
use crate::resize::resize_patch::{self, AnnotationChanges, DesiredSizes};
use crate::resize::resize_status::{ResizeStatus, names_capacity};
use crate::resize::rolling_update::Replacement;
use crate::resize::size_change::SizeChange;
use crate::resize::update_method::{InPlaceDecision, InPlaceRequest};
use crate::resize::{memory_restore, oom_kill, pod_size, proven_acts, qos};

/// The time after which a rejected resize is retried if the pod must not be evicted.
pub(super) const REFUSED_PAUSE: Duration = Duration::from_mins(1);

/// A resize and its disruption.
pub(super) struct Resize {
    pub(super) sizes: DesiredSizes,
    pub(super) disruption: Disruption,
    pub(super) is_change: bool,
}

impl Resize {
    pub(super) fn new(running: &Running, sizes: DesiredSizes) -> Self {
        let mut changes = resize_patch::changes(running, &sizes).peekable();
        let is_change = changes.peek().is_some();
        let restarts = changes.any(|(container, name, _)| container.restarts_for.contains(name));
        drop(changes);
        Self {
            sizes,
            disruption: if restarts {
                Disruption::Restart
            } else {
                Disruption::Resize
            },
            is_change,
        }
    }
}

impl VpaPass<'_> {
    pub(super) fn resize_or_evict(
        &mut self,
        candidate: &Candidate,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let member = candidate.member;
        match member.pending {
            Some(pending) if pending.disruption == Disruption::Eviction => {
                return self.evict(candidate, builder);
            }
            Some(_) => return Err(SkipReason::ResizePending),
            None => {}
        }
        let resize = if self.is_boosted(member) {
            Resize::new(member.running, self.memory_sizes(member))
        } else {
            self.desired_resize(member)
        };
        let (resize, keeps_memory) = self.without_kept_memory(member, resize);
        if keeps_memory && !resize.is_change {
            return Err(SkipReason::RecentlyReverted);
        }
        let resizing = ResizeStatus::of(member.running);
        if resizing == ResizeStatus::MemoryInUse
            && !resize.is_change
            && let Some(sizes) = memory_restore::sizes_in_effect(member.running)
        {
            return self.keep_memory(candidate, sizes, builder);
        }
        match self
            .in_place_request(member, resize.disruption)
            .decide(self.context.settings)
        {
            InPlaceDecision::Approved => self.resize(candidate, &resize, builder),
            InPlaceDecision::Evict => self.evict(candidate, builder),
            InPlaceDecision::InfeasibleCached => Err(SkipReason::KnownInfeasible),
            InPlaceDecision::Infeasible if resize.is_change => {
                self.resize(candidate, &resize, builder)
            }
            InPlaceDecision::Infeasible => {
                let mut attempt = self.attempt(member.running);
                if !names_capacity(member.running) {
                    attempt.node_capacity = None;
                }
                builder
                    .infeasible
                    .push((self.vpa.key.clone(), member.pod.uid.clone(), attempt));
                Err(SkipReason::KnownInfeasible)
            }
            // A resize that waits or failed for another recommendation does not bar the present one.
            InPlaceDecision::Deferred if self.is_replaceable(resizing) && resize.is_change => {
                let allows = |group: &Group| group.allows(resize.disruption, member.availability);
                if self.group(member).is_some_and(allows) {
                    self.resize(candidate, &resize, builder)
                } else {
                    Err(SkipReason::EvictionTolerance)
                }
            }
            InPlaceDecision::Deferred if resizing == ResizeStatus::MemoryInUse => {
                Err(SkipReason::MemoryInUse)
            }
            InPlaceDecision::Deferred if self.rolls_instead(member, resizing) => {
                self.evict(candidate, builder)
            }
            InPlaceDecision::Deferred if resizing == ResizeStatus::NotResizing => {
                Err(Self::group_refusal(member))
            }
            InPlaceDecision::Deferred => {
                let left = resizing
                    .timeout()
                    .and_then(|timeout| timeout.checked_sub(self.resizing_for(member)));
                builder.wake_within(left.map(|left| left.max(Duration::from_secs(1))));
                Err(SkipReason::ResizePending)
            }
        }
    }

    /// The resize without memory that it would reduce although it was restored, or a container was
    /// OOM killed, a short time ago; and whether there is any.
    pub(super) fn without_kept_memory(&self, member: &Member, resize: Resize) -> (Resize, bool) {
        let now = self.context.now;
        let Member { pod, running, .. } = member;
        let killed = oom_kill::last_killed(pod, running, self.spec, now);
        let killed_at = killed.and_then(|(_, kill)| kill.finished_at);
        let kept_for = killed_at.and_then(|at| now.until(at, oom_kill::REFUTES_FOR + EPSILON));
        let kept_for = kept_for.max(memory_restore::protected_for(running, now));
        let mut sizes = resize.sizes;
        let is_kept = kept_for.is_some() && memory_restore::keep_memory(running, &mut sizes);
        if is_kept {
            self.recheck_in(kept_for);
        }
        (Resize::new(running, sizes), is_kept)
    }

    /// Whether another recommendation replaces a resize with this status at once.
    fn is_replaceable(&self, resizing: ResizeStatus) -> bool {
        match resizing {
            ResizeStatus::NotResizing => false,
            ResizeStatus::MemoryInUse => true,
            _ => self.mode == EffectiveUpdateMode::InPlace,
        }
    }

    /// Whether a rolling update replaces a resize that the kubelet did not complete in time, or that
    /// the group is too small for.
    fn rolls_instead(&self, member: &Member, resizing: ResizeStatus) -> bool {
        let group = self.group(member);
        let is_small = group.is_some_and(|group| group.below_min_replicas);
        self.replacement == Replacement::RollingUpdate
            && match resizing {
                ResizeStatus::NotResizing => is_small,
                _ => resizing.has_timed_out(self.resizing_for(member)),
            }
    }

    fn in_place_request<'q>(
        &'q self,
        member: &Member<'q>,
        disruption: Disruption,
    ) -> InPlaceRequest<'q> {
        InPlaceRequest {
            mode: self.mode,
            running: member.running,
            availability: member.availability,
            group: self.group(member),
            has_recommendation: self.has_recommendation,
            is_known_infeasible: (self.context.state)
                .is_infeasible(&member.pod.uid, &self.recommendation),
            resizing_for: self.resizing_for(member),
            disruption,
        }
    }

    /// Resizes the pod, or evicts it if a resize is known to fail and the mode allows evictions.
    fn resize(
        &mut self,
        candidate: &Candidate,
        resize: &Resize,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let member = candidate.member;
        if !resize.is_change {
            return Err(SkipReason::ResizePending);
        }
        let evicts = self.mode == EffectiveUpdateMode::InPlaceOrRecreate;
        // A pod that the budgets keep is resized once more.
        if candidate.evicts_next
            && evicts
            && let Ok(eviction) = self.evict(candidate, builder)
        {
            return Ok(eviction);
        }
        if let Some(stopped) = proven_acts::stopped(member.pod, member.running, &resize.sizes) {
            return self.wait_for_run(candidate, stopped, builder);
        }
        self.check_backoff(member, builder)?;
        let patch = resize_patch::patch(member.running, &resize.sizes);
        if let Some(reason) = self.obstacle(member, resize, &patch, builder) {
            return self.evict_instead(candidate, reason, builder);
        }
        self.reserve(member, resize.disruption, builder)?;
        let mut annotations = self.annotation_changes(member, resize);
        annotations.extend(self.oom_resize_change(candidate));
        let now = self.context.now;
        let note = memory_restore::resized_from(member.pod, member.running, &resize.sizes, now);
        annotations.extend(note.map(|note| (memory_restore::RESIZED_FROM.to_owned(), Some(note))));
        let (reason, own) = (candidate.reason, &candidate.recommendation);
        Ok(Action {
            oom_kill: candidate.oom_kill.clone(),
            ..self.resize_action(member, resize, patch, annotations, reason, own)
        })
    }

    /// The changes of annotations by an ordinary resize.
    pub(super) fn annotation_changes(&self, member: &Member, resize: &Resize) -> AnnotationChanges {
        let Member { running, .. } = member;
        let mut changes = resize_patch::annotation_changes(running, self.spec, self.context.now);
        let limits = resize_patch::limits_change(running, &self.limit_modes, &resize.sizes);
        changes.extend(limits);
        changes
    }

    /// The action that resizes a pod. `own` is the pod's capped recommendation.
    pub(super) fn resize_action(
        &self,
        member: &Member,
        resize: &Resize,
        patch: Patch,
        annotations: AnnotationChanges,
        reason: ActionReason,
        own: &Recommendation,
    ) -> Action {
        let kind = ActionKind::Resize {
            patch,
            annotations,
            attempt: self.attempt(member.running),
        };
        let changes = SizeChange::to_sizes(member.running, &resize.sizes, own);
        self.action(member, kind, reason, resize.disruption, changes)
    }

    /// Evicts the pod in place of a resize that is known to fail, if the mode allows that and its
    /// replacement would not be forbidden as well.
    pub(super) fn evict_instead(
        &mut self,
        candidate: &Candidate,
        obstacle: SkipReason,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let evicts = self.mode == EffectiveUpdateMode::InPlaceOrRecreate;
        if evicts && obstacle != SkipReason::ResizeForbidden {
            self.evict(candidate, builder)
        } else {
            Err(obstacle)
        }
    }

    /// The reason for which a resize is known to fail.
    pub(super) fn obstacle(
        &self,
        member: &Member,
        resize: &Resize,
        patch: &Patch,
        builder: &mut PlanBuilder,
    ) -> Option<SkipReason> {
        let PassContext { state, now, .. } = self.context;
        if qos::would_change(member.running, &resize.sizes) {
            return Some(SkipReason::QosClass);
        }
        if let Some(ago) = state.rejected_ago(&member.pod.uid, patch, now) {
            let is_forbidden = state.is_forbidden(&member.pod.uid);
            if self.mode == EffectiveUpdateMode::InPlaceOrRecreate && !is_forbidden {
                return Some(SkipReason::ResizeRejected);
            }
            let left = REFUSED_PAUSE.saturating_sub(ago);
            if !left.is_zero() {
                builder.wake_within(left);
                return Some(if is_forbidden {
                    SkipReason::ResizeForbidden
                } else {
                    SkipReason::ResizeRejected
                });
            }
        }
        let node_capacity = self.node_capacity(member.running)?;
        state
            .is_infeasible_on(&self.vpa.key, node_capacity, &self.recommendation)
            .then_some(SkipReason::KnownInfeasible)
    }

    pub(super) fn desired_resize(&self, member: &Member) -> Resize {
        let sizes = self.recommended_sizes(member);
        Resize::new(
            member.running,
            resize_patch::desired_sizes(member.running, self.spec, sizes, self.context.now),
        )
    }

    /// The recommended size of each sized container: that of the pod's replacement, but for limits
    /// that a running pod cannot lose.
    pub(super) fn recommended_sizes(&self, member: &Member) -> Vec<ContainerSize> {
        let in_place = self.limit_modes.in_place();
        let pod = self.to_size(member, &in_place);
        let containers = pod_size::sized_containers(pod.running, pod.native_sidecars);
        if !self.has_recommendation {
            return containers.map(|_| ContainerSize::default()).collect();
        }
        let mut sizes = pod.admitted(&self.completed(&pod));
        for (container, size) in containers.zip(&mut sizes) {
            // A pod that was admitted without a limit gets none.
            for resource in [ResourceName::Cpu, ResourceName::Memory] {
                let has_limit = pod_size::limits(container)
                    .is_some_and(|limits| limits.get(&resource).is_some());
                if *self.limit_modes.of(&resource) == LimitMode::None && !has_limit {
                    size.limits.remove(&resource);
                }
            }
        }
        sizes
    }

    fn attempt(&self, running: &Running) -> ResizeAttempt {
        ResizeAttempt {
            recommendation: Arc::clone(&self.recommendation),
            node_capacity: self.node_capacity(running),
        }
    }

    /// The capacity of the pod's node, if the node is known.
    fn node_capacity(&self, running: &Running) -> Option<NodeCapacity> {
        let nodes = &self.context.snapshot.view.nodes;
        let node = nodes.get(running.node.as_ref()?)?;
        Some(NodeCapacity {
            cpu: node.allocatable.cpu,
            memory: node.allocatable.memory,
        })
    }
}
