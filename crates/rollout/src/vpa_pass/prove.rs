//! Acts that follow a refuted one, see [`crate::resize::proven_acts`].

use std::sync::Arc;

use api::vpa::EffectiveUpdateMode;
use jiff::Timestamp;
use model::{Quantity, ResourceName};
use sizing::ContainerSize;
use view::{Container, Termination};

use super::resize::Resize;
use super::{Candidate, EPSILON, Member, PassContext, VpaPass};
use crate::action::{Action, ActionReason};
use crate::plan_builder::PlanBuilder;
use crate::resize::memory_restore::only_memory;
use crate::resize::oom_kill;
use crate::resize::pod_size;
use crate::resize::proven_acts::{
    self, Evidence, NextAct, OomResize, Refutation, RefutationCause, RefutedAct, ResizeAct,
    Stopped, Verdict,
};
use crate::resize::resize_patch::{DesiredSizes, IN_PLACE_UPDATED};
use crate::selection::priority::Priority;
use crate::skip::SkipReason;

/// The last OOM kill of a pod, or a limit that is not in effect, and the judgement of the last act.
pub(super) struct Judged<'a> {
    container: &'a Container,
    kill: Option<&'a Termination>,
    pub(super) has_target: bool,
    pub(super) verdict: Verdict,
    /// The time of the last act, if it is known.
    acted_at: Option<Timestamp>,
}

impl VpaPass<'_> {
    /// Plans the act that follows a refuted one on a pod that has the recommended memory; `None` where
    /// nothing follows, or by other rules.
    pub(super) fn follow(&mut self, member: &Member, builder: &mut PlanBuilder) -> Option<()> {
        let judged = self.judge(member)?;
        self.report(member, &judged, builder);
        let next = judged.verdict.next;
        if !judged.has_target || !matches!(next, NextAct::Step | NextAct::Evict) {
            return None;
        }
        if member.pending.is_some() || member.group.is_none() {
            return None;
        }
        let candidate = self.judged_candidate(member, &judged);
        let mut outcome = match next {
            NextAct::Step => self.step(&candidate, &judged, builder),
            _ => self.evict(&candidate, builder),
        };
        // The container was killed before the kubelet carried out the step.
        let is_lost =
            judged.verdict.refuted == Some((RefutedAct::Step, RefutationCause::ContainerStopped));
        if outcome.is_err() && is_lost && next == NextAct::Evict && self.resizes_in_place() {
            outcome = self.step(&candidate, &judged, builder);
        }
        // A pod that the budgets keep still gets other sizes in place.
        if outcome.is_err() && self.needs_other_size(member, candidate.priority) {
            return None;
        }
        self.record(member, outcome, builder);
        Some(())
    }

    /// Whether the pod is to be updated for another reason than an OOM kill.
    fn needs_other_size(&self, member: &Member, priority: Priority) -> bool {
        let PassContext { settings, now, .. } = self.context;
        let resize = || self.without_kept_memory(member, self.desired_resize(member));
        priority.needs_update(member.pod, false, settings, now) && resize().0.is_change
    }

    /// Judges the last act on a pod. `None` if it has neither an OOM kill nor a limit that is not in
    /// effect.
    pub(super) fn judge<'m>(&self, member: &Member<'m>) -> Option<Judged<'m>> {
        let PassContext { state, now, .. } = self.context;
        let Member { pod, running, .. } = member;
        let outdated = pod.memory_cgroup.outdated.first();
        let killed = oom_kill::last_killed(pod, running, self.spec, now);
        let ended_at = killed.and_then(|(_, kill)| kill.finished_at);
        if let Some(ended_at) = ended_at {
            self.recheck_in(now.until(ended_at, oom_kill::REFUTES_FOR + EPSILON));
        }
        let container = match killed {
            Some((container, _)) => container,
            None => pod
                .containers
                .iter()
                .find(|it| outdated.is_some_and(|outdated| outdated.container == it.name))?,
        };
        let size = self.size_of(member, &container.name)?;
        let mut specified = running.containers.iter();
        let specified = specified.find(|it| it.name == container.name)?;
        let lacks_room = self.lacks_room(member);
        if proven_acts::awaits_kubelet(specified) && !lacks_room {
            return None;
        }
        // What the node has no room for is not asked for once more.
        let has_target = lacks_room || proven_acts::has_memory(specified, &size);
        let (memory_since, was_resized) = state.memory_since(&pod.uid).unzip();
        let in_place = self.resizes_in_place();
        let evidence = Evidence {
            killed_run: killed.and_then(|(_, kill)| Some([kill.started_at?, kill.finished_at?])),
            last: OomResize::of(running),
            size_since: memory_since,
            was_resized: was_resized == Some(true)
                || running.annotations.contains_key(IN_PLACE_UPDATED),
            is_outdated: outdated.is_some(),
            is_bounded: lacks_room || pod.memory_cgroup.is_sum,
            is_replacement: (state.evictions).replaced(
                &self.vpa.key,
                state.first_seen(&pod.uid),
                &self.recommendation,
            ),
            has_target,
            may_step: in_place && !lacks_room && size.limits.get(&ResourceName::Memory).is_some(),
            may_evict: self.mode.evicts(),
        };
        Some(Judged {
            container,
            kill: killed.map(|(_, kill)| kill),
            has_target,
            verdict: evidence.judge(),
            acted_at: evidence.acted_at(),
        })
    }

    pub(super) fn resizes_in_place(&self) -> bool {
        match self.mode {
            EffectiveUpdateMode::InPlaceOrRecreate => true,
            EffectiveUpdateMode::InPlace => self.context.settings.in_place,
            _ => false,
        }
    }

    /// The desired size of a container, also during a startup boost.
    fn size_of(&self, member: &Member, container: &str) -> Option<ContainerSize> {
        let native_sidecars = self.context.settings.native_sidecars;
        let mut containers = pod_size::sized_containers(member.running, native_sidecars);
        let index = containers.position(|it| it.name == container)?;
        self.recommended_sizes(member).into_iter().nth(index)
    }

    /// The memory of the desired sizes, for a pod whose CPU a startup boost raises.
    pub(super) fn memory_sizes(&self, member: &Member) -> DesiredSizes {
        let sizes = self.recommended_sizes(member).into_iter();
        let memory = sizes.map(|size| [&size.requests, &size.limits].map(only_memory));
        memory
            .map(|[requests, limits]| Some(ContainerSize::of(requests, limits)))
            .collect()
    }

    /// Whether a quick OOM kill shows that the pod needs the memory that is recommended.
    pub(super) fn lacks_memory(&self, member: &Member) -> bool {
        let PassContext { settings, now, .. } = self.context;
        let kill = oom_kill::quick_oom(member.pod, member.running, self.spec, settings, now);
        kill.is_some_and(|(Container { name, .. }, _)| {
            let specified = member.running.containers.iter();
            specified
                .filter(|it| it.name == *name)
                .zip(self.size_of(member, name))
                .any(|(specified, size)| !proven_acts::has_memory(specified, &size))
        })
    }

    fn report(&self, member: &Member, judged: &Judged, builder: &mut PlanBuilder) {
        let Some((act, cause)) = judged.verdict.refuted else {
            return;
        };
        builder.plan.refutations.push(Arc::new(Refutation {
            vpa: self.vpa.key.clone(),
            pod: member.pod.key.clone(),
            pod_uid: member.pod.uid.clone(),
            container: judged.container.name.clone(),
            act,
            acted_at: judged.acted_at,
            cause,
            limit: judged.container.limits.memory.map(Quantity::from),
            next: judged.verdict.next,
        }));
    }

    fn judged_candidate<'m>(&self, member: &'m Member<'m>, judged: &Judged) -> Candidate<'m> {
        let own = self.pod_recommendation(member);
        let native_sidecars = self.context.settings.native_sidecars;
        let priority = Priority::of(member.running, &own, native_sidecars);
        let kill = judged.kill;
        Candidate {
            member,
            priority,
            reason: ActionReason::QuickOom,
            oom_kill: kill.and_then(|_| oom_kill::oom_kill(judged.container, member.running, &own)),
            recommendation: own,
            refuted_resizes: judged.verdict.refuted_resizes,
            evicts_next: false,
        }
    }

    /// Resizes the container by one step, once it runs.
    fn step(
        &mut self,
        candidate: &Candidate,
        judged: &Judged,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let running = candidate.member.running;
        let sizes = proven_acts::step_sizes(running, &judged.container.name);
        let resize = Resize::new(running, sizes.ok_or(SkipReason::OomKilledAtTarget)?);
        self.send_resize(candidate, &resize, ResizeAct::Step, builder)
    }

    /// Waits for the next run of stopped containers. After some time an eviction is
    /// the better act for an OOM killed container, where the mode allows it.
    pub(super) fn wait_for_run(
        &mut self,
        candidate: &Candidate,
        stopped: Stopped,
        builder: &mut PlanBuilder,
    ) -> Result<Action, SkipReason> {
        let may_evict =
            candidate.oom_kill.is_some() && self.mode == EffectiveUpdateMode::InPlaceOrRecreate;
        if let Some(since) = stopped.since.filter(|_| may_evict) {
            match proven_acts::wait_left(since, self.context.now) {
                Some(left) => self.recheck_in(Some(left + EPSILON)),
                None => return self.evict(candidate, builder),
            }
        }
        Err(SkipReason::ContainerStopped)
    }
}
