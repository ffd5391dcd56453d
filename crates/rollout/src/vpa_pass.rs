//! The part of a pass that decides about one VPA object.

mod evict;
mod health;
mod preemption;
mod prove;
mod resize;
mod restore;
mod roll;
mod select;
mod wave;

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use api::limit_mode::limit_modes;
use api::rollback::Rollback;
use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscalerSpec};
use model::{LimitModes, NamespaceLimits, Recommendation};
use view::{Vpa, VpaPods};

use crate::action::{Action, ActionKind, ActionReason};
use crate::limits::disruption_limit::{Disruption, Group, PodAvailability};
use crate::limits::group_size::VpaInput;
use crate::limits::vpa_pause::{PausedVpa, VpaPauseReason};
use crate::plan::{AllowedUpdates, PodCounts, Snapshot};
use crate::plan_builder::{PassContext, PlanBuilder};
use crate::resize::left_out;
use crate::resize::oom_kill::{self, QuickOomKill};
use crate::resize::pod_size::PodToSize;
use crate::resize::resize_status::{ResizeStatus, resizing_since};
use crate::resize::rolling_update::Replacement;
use crate::resize::size_change::SizeChange;
use crate::resize::startup_boost;
use crate::selection::priority::Priority;
use crate::selection::recent_pods::recent_pods;
use crate::skip::{Skip, SkipReason};
use crate::vpa_pods::{Member, MemberGroups, controller_of, members};

/// Added to a time that must be exceeded, not only reached.
const EPSILON: Duration = Duration::from_millis(1);

/// The acts that the pauses of the VPA object, and of all, allow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Acts {
    All,
    Relief,
}

pub(super) struct VpaPass<'a> {
    context: PassContext<'a>,
    vpa: &'a Vpa,
    spec: &'a VerticalPodAutoscalerSpec,
    mode: EffectiveUpdateMode,
    /// Whether no VPA object controls the pods. Then they may only be moved.
    is_unmanaged: bool,
    replacement: Replacement,
    acts: Acts,
    /// Whether this pass has planned a rolling update.
    has_rolled: bool,
    /// Empty without a recommendation, see `has_recommendation`.
    recommendation: Arc<Recommendation>,
    has_recommendation: bool,
    /// The rollback by which the recommendation is that of former requests, if there is one.
    rollback: Option<Rollback>,
    limits: NamespaceLimits,
    limit_modes: LimitModes,
    /// The rest of the settling time.
    settles_in: Option<Duration>,
    groups: Vec<Group>,
    /// The time after which time alone may change the decision.
    recheck_in: Cell<Option<Duration>>,
}

/// A pod that wants another size.
struct Candidate<'a> {
    member: &'a Member<'a>,
    priority: Priority,
    reason: ActionReason,
    recommendation: Recommendation,
    oom_kill: Option<QuickOomKill>,
    /// Refuted resizes in a row.
    refuted_resizes: u32,
    /// Whether an eviction replaces the next resize, after refuted ones.
    evicts_next: bool,
}

impl<'a> VpaPass<'a> {
    /// Decides, and records the results in `builder`.
    pub(super) fn run(
        context: PassContext<'a>,
        input: &VpaInput<'a>,
        pause: Result<Option<Duration>, VpaPauseReason>,
        builder: &mut PlanBuilder<'a>,
    ) {
        let (state, settings, now) = (context.state, context.settings, context.now);
        let (snapshot, VpaPods { vpa, pods, .. }) = (context.snapshot, input.vpa_pods);
        let view = snapshot.view;
        let spec = &vpa.object.spec;
        let is_unmanaged = input.vpa_pods.is_unmanaged();
        let mode = if is_unmanaged {
            EffectiveUpdateMode::Off
        } else {
            spec.effective_update_mode()
        };
        let (recent, changes_in) = recent_pods(vpa, pods.values().map(Arc::as_ref), now);
        builder.wake_within(changes_in);
        let mut counts = PodCounts {
            vpa: vpa.key.clone(),
            controlled: pods.len(),
            recent,
            ..PodCounts::default()
        };
        if let Ok(Some(due)) | Err(VpaPauseReason::OutsideWindow { opens_in: due }) = pause {
            builder.wake_within(due);
        }
        let acts = if snapshot.pause.is_some() || pause.is_err() {
            Acts::Relief
        } else {
            Acts::All
        };
        if let (Err(reason), false) = (pause, is_unmanaged) {
            builder.plan.paused.push(Arc::new(PausedVpa {
                vpa: vpa.key.clone(),
                reason,
            }));
        }
        let mut recommendation = recommendation_of(snapshot, vpa);
        let rollback = (recommendation.as_ref()).and_then(|it| Rollback::of(&vpa.object, it));
        if let Some(rollback) = &rollback {
            recommendation = Some(Arc::new(rollback.former.clone()));
        }
        let replacement = Replacement::of(vpa, mode, settings);
        let MemberGroups {
            groups,
            members,
            changes_in,
        } = members(input, (mode, replacement), view, state, settings, now);
        builder.wake_within(changes_in);
        let missing: i64 = groups.iter().map(Group::missing).sum();
        counts.missing = usize::try_from(missing).unwrap_or(0);
        let mut pass = Self {
            context,
            vpa,
            spec,
            mode,
            is_unmanaged,
            replacement,
            acts,
            has_rolled: false,
            has_recommendation: recommendation.is_some(),
            recommendation: recommendation.unwrap_or_default(),
            rollback,
            limits: view.namespace_limits(&vpa.key.namespace),
            limit_modes: limit_modes(&vpa.object).unwrap_or_default(),
            settles_in: state.settling.time_left(&vpa.key, now),
            groups,
            recheck_in: Cell::new(None),
        };
        pass.report_rollback(builder);
        pass.plan_actions(&members, &mut counts, builder);
        builder.wake_within(pass.recheck_in.get());
        if context.evicts_for_others() && acts == Acts::All {
            pass.record_preemption_candidates(&members, builder);
        }
        if !is_unmanaged {
            builder.plan.pod_counts.push(Arc::new(counts));
        }
    }

    fn plan_actions(
        &mut self,
        members: &[Member],
        counts: &mut PodCounts,
        builder: &mut PlanBuilder,
    ) {
        let (boosted, mut others): (Vec<_>, Vec<_>) = members.iter().partition(|member| {
            // A pod that is killed before it is ready would keep its boost for ever.
            self.is_boosted(member) && !self.lacks_memory(member)
        });
        counts.boosted = boosted.len();
        counts.pending = members.iter().filter(|it| it.pending.is_some()).count();
        counts.allowed = match self.mode {
            _ if !self.has_recommendation => AllowedUpdates::NoRecommendation,
            EffectiveUpdateMode::InPlace if !self.context.settings.in_place => {
                AllowedUpdates::InPlaceDisabled
            }
            _ => AllowedUpdates::All,
        };
        for member in boosted {
            if let Some(action) = self.unboost(member, builder) {
                self.record(member, Ok(action), builder);
            }
        }
        if !self.has_recommendation {
            return;
        }
        let resizes = self.resizes_in_place();
        if resizes {
            others.retain(|member| self.revert(member, builder).is_none());
        }
        let updates = resizes || self.mode == EffectiveUpdateMode::Recreate;
        if !updates || self.acts == Acts::Relief {
            return;
        }
        others.retain(|member| self.follow(member, builder).is_none());
        // Pods that are on their way out are not asked again.
        let evicts = !resizes && self.replacement == Replacement::Eviction;
        others.retain(|member| !evicts || member.pending.is_none() || self.may_evict(member));
        let candidates = self.candidates(others, builder);
        if resizes {
            counts.resizable = candidates.len();
        } else {
            let evictable = candidates.iter();
            counts.evictable = evictable
                .filter(|it| !evicts || self.may_evict(it.member))
                .count();
        }
        let mut allowed = self.wave(members, &candidates, builder);
        for candidate in candidates {
            let is_in_wave = candidate.is_in_wave();
            let outcome = match allowed {
                Some((0, reason)) if is_in_wave => Err(reason),
                _ if resizes => self.resize_or_evict(&candidate, builder),
                _ => self.evict(&candidate, builder),
            };
            if is_in_wave && outcome.is_ok() {
                allowed = allowed.map(|(left, reason)| (left - 1, reason));
            }
            self.record(candidate.member, outcome, builder);
        }
    }

    /// The reason for which the pod's group allows no eviction.
    fn group_refusal(member: &Member) -> SkipReason {
        if member.group.is_none() {
            SkipReason::TooFewReplicas
        } else {
            SkipReason::EvictionTolerance
        }
    }

    /// Records an action, or the reason for skipping the pod.
    fn record(
        &self,
        member: &Member,
        outcome: Result<Action, SkipReason>,
        builder: &mut PlanBuilder,
    ) {
        match outcome {
            Ok(action) => builder.plan.actions.push(Arc::new(action)),
            Err(reason) => builder.plan.skips.push(Arc::new(Skip {
                vpa: self.vpa.key.clone(),
                pod: member.pod.key.clone(),
                reason,
            })),
        }
    }

    /// The recommendation, capped for the pod by its policy, limits and limit ranges.
    fn pod_recommendation(&self, member: &Member) -> Recommendation {
        let pod = self.to_size(member, &self.limit_modes);
        pod.capped(&self.completed(&pod))
    }

    /// The recommendation, with what it leaves out for a pod.
    fn completed(&self, pod: &PodToSize) -> Cow<'_, Recommendation> {
        left_out::completed(&self.recommendation, &self.vpa.object, pod)
    }

    /// A pod, and what decides on its size besides the recommendation.
    fn to_size<'p>(&'p self, member: &Member<'p>, limit_modes: &'p LimitModes) -> PodToSize<'p> {
        let controller = controller_of(self.context.snapshot.view, member.pod);
        PodToSize {
            running: member.running,
            template: controller.map(|controller| &controller.template),
            spec: self.spec,
            limit_modes,
            namespace: &self.limits,
            native_sidecars: self.context.settings.native_sidecars,
            leaves_off: self.context.settings.startup_boost,
        }
    }

    /// Whether the pod has a CPU startup boost. Until it is over, the pod is not sized.
    fn is_boosted(&self, member: &Member) -> bool {
        self.context.settings.startup_boost
            && self.spec.has_startup_boost()
            && startup_boost::is_boosted(member.running)
    }

    fn group(&self, member: &Member) -> Option<&Group> {
        self.groups.get(member.group?)
    }

    /// Whether a run of the pod was OOM killed that began after the node had no room for more memory.
    fn lacks_room(&self, member: &Member) -> bool {
        let Member { pod, running, .. } = member;
        let since = resizing_since(running);
        let killed = || oom_kill::last_killed(pod, running, self.spec, self.context.now);
        ResizeStatus::of(running) == ResizeStatus::Deferred
            && since
                .is_some_and(|since| killed().is_some_and(|(_, it)| it.started_at > Some(since)))
    }

    /// The time for which the pod has been resizing. Without an end where another node may have the room
    /// that it lacks.
    fn resizing_for(&self, member: &Member) -> Duration {
        let PassContext { state, now, .. } = self.context;
        if self.lacks_room(member) {
            return Duration::MAX;
        }
        let since = resizing_since(member.running);
        let resizing_for = state
            .resizing_for(&member.pod.uid, now)
            .max(since.map_or(Duration::ZERO, |since| now.since(since)));
        let timeout = ResizeStatus::of(member.running).timeout();
        self.recheck_in(
            timeout
                .and_then(|timeout| (timeout + EPSILON).checked_sub(resizing_for))
                .filter(|left| !left.is_zero()),
        );
        resizing_for
    }

    /// Makes the time after which the decision is made again at most `after`.
    fn recheck_in(&self, after: Option<Duration>) {
        self.recheck_in
            .set(after.into_iter().chain(self.recheck_in.get()).min());
    }

    /// An error during the pod's backoff.
    fn check_backoff(&self, member: &Member, builder: &mut PlanBuilder) -> Result<(), SkipReason> {
        let PassContext { state, now, .. } = self.context;
        let left = state.backoff_left(&member.pod.uid, now);
        builder.wait(left, SkipReason::BackingOff)
    }

    /// Takes a disruption from the pod's group and disruption budgets. An error if one does not
    /// allow it.
    fn reserve(
        &mut self,
        member: &Member,
        disruption: Disruption,
        builder: &mut PlanBuilder,
    ) -> Result<(), SkipReason> {
        let stops_serving = disruption == Disruption::Restart
            && member.availability == (PodAvailability::Running { available: true });
        if stops_serving
            && !self
                .group(member)
                .is_some_and(|group| group.allows(disruption, member.availability))
        {
            return Err(SkipReason::EvictionTolerance);
        }
        builder
            .budgets
            .reserve(disruption, member.pod, member.running)?;
        if let Some(group) = member.group.and_then(|index| self.groups.get_mut(index)) {
            group.reserve(disruption, member.availability);
        }
        Ok(())
    }

    fn action(
        &self,
        member: &Member,
        kind: ActionKind,
        reason: ActionReason,
        disruption: Disruption,
        changes: Vec<SizeChange>,
    ) -> Action {
        Action {
            vpa: self.vpa.key.clone(),
            pod: member.pod.key.clone(),
            pod_uid: member.pod.uid.clone(),
            kind,
            reason,
            changes,
            recommendation: Arc::clone(&self.recommendation),
            disruption,
            oom_kill: None,
            relocation: None,
        }
    }

    /// The changes of requests by a replacement of the pod. `own` is its capped recommendation.
    fn target_changes(&self, member: &Member, own: &Recommendation) -> Vec<SizeChange> {
        SizeChange::to_targets(member.running, own, self.context.settings.native_sidecars)
    }
}

/// The recommendation of the feed if it takes precedence, else that of the status.
fn recommendation_of(snapshot: &Snapshot, vpa: &Vpa) -> Option<Arc<Recommendation>> {
    let of_feed = snapshot.recommendations.get(vpa.uid()).cloned();
    of_feed.or_else(|| Some(Arc::new(vpa.recommendation()?.clone())))
}
