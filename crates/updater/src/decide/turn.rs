//! One autoscaler's turn in a pass.

use std::time::Duration;

use cluster::Autoscaler;
use model::Recommendation;

use super::act::{Act, Skip, SkipReason, What, Why};
use super::budgets::Budgets;
use super::group::{Disruption, Group};
use super::matching::Matched;
use super::members::{Member, Members, members};
use super::memory::Memory;
use super::moment::Moment;
use super::priority::{Priority, had_quick_oom};
use super::settings::Settings;
use super::{Plan, Scene, Tally, requirements};

/// One autoscaler's turn.
pub(super) struct Turn<'a> {
    scene: &'a Scene<'a>,
    memory: &'a Memory,
    settings: &'a Settings,
    now: Moment,
    matched: &'a Matched<'a>,
    groups: Vec<Group>,
}

/// A pod that wants another size.
struct Candidate<'a> {
    member: &'a Member<'a>,
    priority: Priority,
    why: Why,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        scene: &'a Scene<'a>,
        memory: &'a Memory,
        settings: &'a Settings,
        now: Moment,
        matched: &'a Matched<'a>,
    ) -> Self {
        Self { scene, memory, settings, now, matched, groups: Vec::new() }
    }

    pub(super) fn take(mut self, budgets: &mut Budgets, plan: &mut Plan) {
        let Members { groups, members } =
            members(self.matched, self.scene.view, self.memory, self.settings, &|_| false);
        self.groups = groups;
        let may_go: Vec<&Member> = members.iter().filter(|member| self.may_evict(member)).collect();
        let autoscaler = self.matched.autoscaler;
        plan.tallies.push(Tally {
            autoscaler: autoscaler.key.clone(),
            controlled: members.len(),
            evictable: may_go.len(),
            resizable: 0,
        });
        let Some(recommendation) = recommendation_of(self.scene, autoscaler) else { return };
        for candidate in self.candidates(&may_go, &recommendation) {
            match self.evict(&candidate, budgets, &mut plan.wake_in) {
                Ok(act) => plan.acts.push(act),
                Err(reason) => plan.skips.push(Skip {
                    autoscaler: autoscaler.key.clone(),
                    pod: candidate.member.pod.key.clone(),
                    reason,
                }),
            }
        }
    }

    /// Whether the pod may be evicted as far as its group is concerned. One of which nobody knows whether it was may be tried
    /// again: it counts already.
    fn may_evict(&self, member: &Member) -> bool {
        match member.pending {
            Some(pending) if pending.disruption == Disruption::Eviction => pending.may_retry,
            Some(_) => false,
            None => member
                .group
                .and_then(|index| self.groups.get(index))
                .is_some_and(|group| group.allows(Disruption::Eviction, member.standing)),
        }
    }

    /// Those that want another size, in the order in which they get it.
    fn candidates<'m>(&self, members: &[&'m Member<'m>], recommendation: &Recommendation) -> Vec<Candidate<'m>> {
        let spec = &self.matched.autoscaler.object.spec;
        let mut candidates: Vec<Candidate> = members
            .iter()
            .filter_map(|member| {
                let priority = Priority::of(member.running, recommendation);
                let quick_oom = had_quick_oom(member.pod, member.running, spec, self.settings, self.now);
                let why = match (quick_oom, priority.outside) {
                    (true, _) => Why::QuickOom,
                    (false, true) => Why::OutsideBounds,
                    (false, false) => Why::Drift,
                };
                priority.is_enough(member.pod, quick_oom, self.settings, self.now).then_some(Candidate {
                    member,
                    priority,
                    why,
                })
            })
            .filter(|candidate| requirements::admit(candidate.member.running, recommendation, spec))
            .collect();
        candidates.sort_by(|a, b| a.priority.before(&b.priority));
        candidates.sort_by_key(|candidate| candidate.why != Why::QuickOom);
        candidates
    }

    fn evict(
        &mut self,
        candidate: &Candidate,
        budgets: &mut Budgets,
        wake_in: &mut Option<Duration>,
    ) -> Result<Act, SkipReason> {
        let Member { pod, running, standing, group, pending } = candidate.member;
        if !self.may_evict(candidate.member) {
            return Err(SkipReason::NoRoom);
        }
        if let Some(left) = self.memory.pause_left(&pod.uid, self.now) {
            *wake_in = Some(wake_in.map_or(left, |earlier| earlier.min(left)));
            return Err(SkipReason::BackingOff);
        }
        if pending.is_none() {
            if let Some(reason) = budgets.refusal(Disruption::Eviction, pod, running) {
                return Err(reason);
            }
            budgets.spend(Disruption::Eviction, pod, running, self.now);
            if let Some(group) = group.and_then(|index| self.groups.get_mut(index)) {
                group.take(Disruption::Eviction, *standing);
            }
        }
        Ok(Act {
            autoscaler: self.matched.autoscaler.key.clone(),
            pod: pod.key.clone(),
            pod_uid: pod.uid.clone(),
            what: What::Evict,
            why: candidate.why,
            disruption: Disruption::Eviction,
        })
    }
}

/// What is recommended: what was heard last, else what the object says.
fn recommendation_of(scene: &Scene, autoscaler: &Autoscaler) -> Option<Recommendation> {
    if let Some(heard) = scene.recommendations.get(autoscaler.uid()) {
        return Some(heard.as_ref().clone());
    }
    let status = autoscaler.object.status.as_ref()?;
    status.recommendation.clone().map(Recommendation::from)
}
