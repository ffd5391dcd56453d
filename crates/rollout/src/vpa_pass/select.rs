//! Selection of the pods that want another size.

use std::cmp::Reverse;

use api::rollback::Rollback;
use view::{Pod, WellKnown};

use super::{Candidate, EPSILON, Member, PassContext, VpaPass};
use crate::action::ActionReason;
use crate::plan_builder::PlanBuilder;
use crate::resize::oom_kill::{self, quick_oom};
use crate::resize::proven_acts::NextAct;
use crate::selection::eviction_requirements;
use crate::selection::priority::Priority;
use crate::skip::SkipReason;

/// The ordinal of a pod of a `StatefulSet`, whose own updates begin with the last one.
fn ordinal(pod: &Pod) -> Option<u64> {
    let owner = pod.owner.as_ref()?;
    let (_, ordinal) = pod.key.name.rsplit_once('-')?;
    (owner.kind == WellKnown::StatefulSet.kind()).then_some(ordinal.parse().ok()?)
}

impl VpaPass<'_> {
    /// The pods that want another size, the most urgent first; with waves those of a `StatefulSet` from the
    /// last ordinal on.
    pub(super) fn candidates<'m>(
        &self,
        members: Vec<&'m Member<'m>>,
        builder: &mut PlanBuilder,
    ) -> Vec<Candidate<'m>> {
        let mut candidates: Vec<Candidate> = members
            .into_iter()
            .filter_map(|member| self.candidate(member, builder))
            .collect();
        candidates.sort_by(|a, b| a.priority.cmp_urgency(&b.priority));
        if self.context.settings.waves.is_some() {
            candidates.sort_by_key(|candidate| Reverse(ordinal(candidate.member.pod)));
        }
        candidates.sort_by_key(|candidate| candidate.reason != ActionReason::QuickOom);
        candidates
    }

    fn candidate<'m>(
        &self,
        member: &'m Member<'m>,
        builder: &mut PlanBuilder,
    ) -> Option<Candidate<'m>> {
        let PassContext { settings, now, .. } = self.context;
        let own = self.pod_recommendation(member);
        let priority = Priority::of(member.running, &own, settings.native_sidecars);
        let killed = quick_oom(member.pod, member.running, self.spec, settings, now);
        let judged = killed.and_then(|_| self.judge(member));
        let is_bounded = member.pod.memory_cgroup.is_sum;
        let has_target = judged.as_ref().is_some_and(|judged| judged.has_target);
        let verdict = judged.map(|judged| judged.verdict);
        // No size helps a pod that has the recommended memory.
        let quick_oom = killed.filter(|_| !(is_bounded && has_target));
        let reason = match (quick_oom, priority.outside_recommended_range) {
            (Some(_), _) => ActionReason::QuickOom,
            (None, true) => ActionReason::OutsideBounds,
            (None, false) => ActionReason::Drift,
        };
        if let Some((_, ended_at)) = killed {
            let counts_for = oom_kill::quick_oom_threshold(self.spec, settings);
            self.recheck_in(now.until(ended_at, counts_for + EPSILON));
        }
        let next = verdict.map(|verdict| verdict.next);
        // The others keep what they have.
        let is_refused = |rollback: &Rollback| self.has(&rollback.refused, member);
        if quick_oom.is_none() && !self.rollback.as_ref().is_none_or(is_refused) {
            return None;
        }
        let skip = |reason: SkipReason, builder: &mut PlanBuilder| {
            self.record(member, Err(reason), builder);
        };
        if !priority.needs_update(member.pod, quick_oom.is_some(), settings, now) {
            self.recheck_in(priority.needs_update_in(member.pod, settings, now));
            if next == Some(NextAct::Rest) {
                skip(SkipReason::OomKilledAtTarget, builder);
            }
            return None;
        }
        // An act that changes nothing would be repeated for ever.
        let pod = self.to_size(member, &self.limit_modes);
        let recommendation = self.completed(&pod);
        let admitted = pod.admitted(&recommendation);
        if !pod.differs_from(&admitted, &recommendation) {
            let refused = admitted.iter().flat_map(|size| &size.refused);
            if let Some((_, refusal)) = refused.max_by_key(|(_, refusal)| *refusal) {
                skip(SkipReason::Refused(*refusal), builder);
            }
            return None;
        }
        let settles_in = self.settles_in.filter(|_| reason != ActionReason::QuickOom);
        if let Err(reason) = builder.wait(settles_in, SkipReason::Settling) {
            skip(reason, builder);
            return None;
        }
        let (running, native_sidecars) = (member.running, settings.native_sidecars);
        if !eviction_requirements::admit(running, &own, self.spec, native_sidecars) {
            skip(SkipReason::EvictionRequirements, builder);
            return None;
        }
        Some(Candidate {
            member,
            priority,
            reason,
            oom_kill: quick_oom.and_then(|(it, _)| oom_kill::oom_kill(it, member.running, &own)),
            recommendation: own,
            refuted_resizes: verdict.map_or(0, |verdict| verdict.refuted_resizes),
            evicts_next: !has_target && next == Some(NextAct::Evict),
        })
    }
}
