//! In-place resizes, and evictions where a resize is no use.

use std::sync::Arc;
use std::time::Duration;

use api::limit_mode::LIMITS;
use api::vpa::EffectiveUpdateMode;
use json_patch::Patch;
use model::{LimitMode, Recommendation, ResourceName};
use sizing::{ContainerSize, limits_text};
use view::Running;

use super::{Candidate, Disruption, EPSILON, Group, Member, PassContext, VpaPass};
use crate::action::{Action, ActionKind, ActionReason, NodeCapacity, ResizeAttempt};
use crate::plan_builder::PlanBuilder;
use crate::resize::proven_acts::{self, OOM_RESIZE, OomResize, ResizeAct};
use crate::resize::resize_patch::{self, AnnotationChanges, DesiredSizes};
use crate::resize::resize_status::{ResizeStatus, names_capacity};
use crate::resize::rolling_update::Replacement;
use crate::resize::size_change::SizeChange;
use crate::resize::update_method::{InPlaceDecision, InPlaceRequest};
use crate::resize::{memory_restore, oom_kill, pod_size, qos};
use crate::skip::SkipReason;

/// The time after which a rejected resize is retried if the pod must not be evicted.
pub(super) const REFUSED_PAUSE: Duration = Duration::from_mins(1);

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
        let PassContext {
            state, settings, ..
        } = self.context;
        let request = InPlaceRequest {
            mode: self.mode,
            running: member.running,
            availability: member.availability,
            group: self.group(member),
            has_recommendation: self.has_recommendation,
            is_known_infeasible: state.is_infeasible(&member.pod.uid, &self.recommendation),
            resizing_for: self.resizing_for(member),
            disruption: resize.disruption,
        };
        match request.decide(settings) {
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

    /// Resizes the pod, or evicts it where that is the better act and the mode allows evictions.
    fn resize(
        &mut self,
        candidate: &Candidate,
        resize: &Resize,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
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
        self.send_resize(candidate, resize, ResizeAct::Resize, builder)
    }

    /// Resizes the pod once its containers run, or evicts it if the resize is known to fail.
    pub(super) fn send_resize(
        &mut self,
        candidate: &Candidate,
        resize: &Resize,
        act: ResizeAct,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let (member, now) = (candidate.member, self.context.now);
        let Member { pod, running, .. } = *member;
        if let Some(stopped) = proven_acts::stopped(pod, running, &resize.sizes) {
            return self.wait_for_run(candidate, stopped, builder);
        }
        self.check_backoff(member, builder)?;
        let patch = resize_patch::patch(running, &resize.sizes);
        if let Some(obstacle) = self.obstacle(member, resize, &patch, builder) {
            let evicts = self.mode == EffectiveUpdateMode::InPlaceOrRecreate;
            // What forbids the resize may forbid the replacement of the pod as well.
            return if evicts && obstacle != SkipReason::ResizeForbidden {
                self.evict(candidate, builder)
            } else {
                Err(obstacle)
            };
        }
        self.reserve(member, resize.disruption, builder)?;
        let mut annotations = match act {
            ResizeAct::Resize => self.annotation_changes(member, resize),
            ResizeAct::Step => resize_patch::annotation_changes(running, self.spec, now),
        };
        let is_answer = candidate.oom_kill.is_some() && pod.memory_cgroup.is_sum;
        if act == ResizeAct::Step || is_answer || running.annotations.contains_key(OOM_RESIZE) {
            let note = OomResize {
                at: now.wall,
                act,
                refuted: candidate.refuted_resizes,
            };
            annotations.insert(OOM_RESIZE.to_owned(), note.text());
        }
        let note = memory_restore::resized_from(pod, running, &resize.sizes, now);
        annotations.extend(note.map(|note| (memory_restore::RESIZED_FROM.to_owned(), Some(note))));
        let (reason, own) = (candidate.reason, &candidate.recommendation);
        Ok(Action {
            oom_kill: candidate.oom_kill.clone(),
            ..self.resize_action(member, resize, patch, annotations, reason, own)
        })
    }

    /// The changes of annotations by an ordinary resize, with the limits that follow from limit modes.
    pub(super) fn annotation_changes(&self, member: &Member, resize: &Resize) -> AnnotationChanges {
        let running = member.running;
        let mut changes = resize_patch::annotation_changes(running, self.spec, self.context.now);
        let containers = resize_patch::resized_containers(running, &resize.sizes);
        let containers = containers.map(|(container, size)| (container.name.as_str(), size));
        let limits = limits_text(&self.limit_modes, containers);
        if limits.is_some() || running.annotations.contains_key(LIMITS) {
            changes.insert(LIMITS.to_owned(), limits);
        }
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

    /// The reason for which a resize is known to fail.
    fn obstacle(
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
        if let Some((ago, is_forbidden)) = state.rejected(&member.pod.uid, patch, now) {
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
            let [_, limits] = pod_size::effective(container);
            // A pod that was admitted without a limit gets none.
            for resource in [ResourceName::Cpu, ResourceName::Memory] {
                let has_limit = limits.get(&resource).is_some();
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
