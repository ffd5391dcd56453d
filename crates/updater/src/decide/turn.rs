//! One autoscaler's turn in a pass.

mod back;

use std::sync::Arc;
use std::time::Duration;

use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscalerSpec};
use cluster::{Autoscaler, Running};
use json_patch::Patch;
use model::{NamespaceLimits, Recommendation};

use super::act::{Act, Attempt, Shape, Skip, SkipReason, What, Why};
use super::group::{Disruption, Group, Standing};
use super::hold::{Held, Hold};
use super::in_place::{self, InPlace, Question};
use super::ledger::Ledger;
use super::make_room::{Cramped, Neighbour};
use super::matching::Matched;
use super::members::{Member, Members, members};
use super::memory::Memory;
use super::moment::Moment;
use super::priority::{Priority, had_quick_oom};
use super::resize_patch::{self, Wanted};
use super::resizing::Resizing;
use super::settings::{MakeRoom, Settings};
use super::{Scene, Tally, boost, qos, requirements, revert, size};

/// After how long a refused resize is tried again where nothing else can be done.
const REFUSED_PAUSE: Duration = Duration::from_mins(1);

/// What every turn looks at.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) memory: &'a Memory,
    pub(super) settings: &'a Settings,
    pub(super) now: Moment,
}

/// One autoscaler's turn.
pub(super) struct Turn<'a> {
    context: Context<'a>,
    autoscaler: &'a Autoscaler,
    spec: &'a VerticalPodAutoscalerSpec,
    mode: EffectiveUpdateMode,
    /// Empty where there is none, which is told by `has_recommendation`.
    recommendation: Arc<Recommendation>,
    has_recommendation: bool,
    limits: NamespaceLimits,
    groups: Vec<Group>,
}

/// A pod that wants another size.
struct Candidate<'a> {
    member: &'a Member<'a>,
    priority: Priority,
    why: Why,
}

/// What a resize would do.
struct Resize {
    wanted: Wanted,
    disruption: Disruption,
    is_change: bool,
}

impl<'a> Turn<'a> {
    /// Takes the turn.
    pub(super) fn take(
        context: Context<'a>,
        matched: &Matched<'a>,
        hold: Result<Option<Duration>, Hold>,
        ledger: &mut Ledger<'a>,
    ) {
        let autoscaler = matched.autoscaler;
        let spec = &autoscaler.object.spec;
        let mode = spec.effective_update_mode();
        let mut tally =
            Tally { autoscaler: autoscaler.key.clone(), controlled: matched.pods.len(), evictable: 0, resizable: 0 };
        if let Ok(Some(due)) | Err(Hold::OutsideWindow { opens_in: due }) = hold {
            ledger.wake_in(due);
        }
        if let Err(hold) = hold {
            ledger.plan.held.push(Held { autoscaler: autoscaler.key.clone(), hold });
        } else {
            let recommendation = recommendation_of(context.scene, autoscaler);
            let has_recommendation = recommendation.is_some();
            let recommendation = recommendation.unwrap_or_default();
            let Members { groups, members } = of(context, matched, mode);
            let limits = context.scene.view.namespace_limits(&autoscaler.key.namespace);
            let mut turn = Self { context, autoscaler, spec, mode, recommendation, has_recommendation, limits, groups };
            turn.act(&members, &mut tally, ledger);
            if context.settings.make_room != MakeRoom::Off {
                turn.enter_neighbours(&members, ledger);
            }
        }
        ledger.plan.tallies.push(tally);
    }

    fn act(&mut self, members: &[Member], tally: &mut Tally, ledger: &mut Ledger) {
        let boosts = self.context.settings.startup_boost && boost::is_asked_for(self.spec);
        let (boosted, others): (Vec<&Member>, Vec<&Member>) =
            members.iter().partition(|member| boosts && boost::is_boosted(member.running));
        for member in boosted {
            if let Some(act) = self.take_boost_back(member, ledger) {
                ledger.plan.acts.push(act);
            }
        }
        match self.mode {
            _ if !self.has_recommendation => {}
            EffectiveUpdateMode::Off | EffectiveUpdateMode::Initial => {}
            EffectiveUpdateMode::Recreate => {
                let candidates = self.candidates(others.into_iter().filter(|member| self.may_evict(member)), ledger);
                tally.evictable = candidates.len();
                for candidate in candidates {
                    let outcome = self.evict(&candidate, ledger);
                    self.enter(&candidate, outcome, ledger);
                }
            }
            EffectiveUpdateMode::InPlace if !self.context.settings.in_place => {}
            EffectiveUpdateMode::InPlace | EffectiveUpdateMode::InPlaceOrRecreate => {
                let others = self.revert_killed(others, ledger);
                let candidates = self.candidates(others.into_iter(), ledger);
                tally.resizable = candidates.len();
                for candidate in candidates {
                    let outcome = self.resize_or_evict(&candidate, ledger);
                    self.enter(&candidate, outcome, ledger);
                }
            }
        }
    }

    /// Puts down what is done, or why it is not.
    fn enter(&self, candidate: &Candidate, outcome: Result<Act, SkipReason>, ledger: &mut Ledger) {
        let pod = candidate.member.pod;
        match outcome {
            Ok(act) => ledger.plan.acts.push(act),
            Err(reason) => {
                ledger.plan.skips.push(Skip { autoscaler: self.autoscaler.key.clone(), pod: pod.key.clone(), reason });
            }
        }
    }

    /// Those that want another size, in the order in which they get it.
    fn candidates<'m>(&self, members: impl Iterator<Item = &'m Member<'m>>, ledger: &mut Ledger) -> Vec<Candidate<'m>> {
        let Context { settings, now, .. } = self.context;
        let mut candidates: Vec<Candidate> = members
            .filter_map(|member| {
                let own = size::own_recommendation(&self.recommendation, member.running, self.spec, &self.limits);
                let priority = Priority::of(member.running, &own);
                let quick_oom = had_quick_oom(member.pod, member.running, self.spec, settings, now);
                let why = match (quick_oom, priority.outside) {
                    (true, _) => Why::QuickOom,
                    (false, true) => Why::OutsideBounds,
                    (false, false) => Why::Drift,
                };
                if !priority.is_enough(member.pod, quick_oom, settings, now) {
                    return None;
                }
                let candidate = Candidate { member, priority, why };
                if !requirements::admit(member.running, &own, self.spec) {
                    self.enter(&candidate, Err(SkipReason::Requirements), ledger);
                    return None;
                }
                Some(candidate)
            })
            .collect();
        candidates.sort_by(|a, b| a.priority.before(&b.priority));
        candidates.sort_by_key(|candidate| candidate.why != Why::QuickOom);
        candidates
    }

    /// Puts down the pods that wait for room, and those that could make it.
    fn enter_neighbours(self, members: &[Member<'a>], ledger: &mut Ledger<'a>) {
        let first = ledger.groups.len();
        let evicts = matches!(self.mode, EffectiveUpdateMode::Recreate | EffectiveUpdateMode::InPlaceOrRecreate);
        for member in members {
            let Member { pod, running, standing, group, pending } = member;
            let (autoscaler, group) = (self.autoscaler.key.clone(), group.map(|index| first + index));
            let resizing = Resizing::of(running);
            if matches!(resizing, Resizing::Deferred | Resizing::Infeasible) {
                ledger.cramped.push(Cramped {
                    autoscaler,
                    pod,
                    running,
                    standing: *standing,
                    group,
                    fits_empty_node: resizing == Resizing::Deferred,
                    may_move: evicts && pending.is_none(),
                });
            } else if let (true, Some(group), None) = (evicts && self.has_recommendation, group, pending) {
                let own = size::own_recommendation(&self.recommendation, running, self.spec, &self.limits);
                let shrinks = !Priority::of(running, &own).scale_up;
                ledger.neighbours.push(Neighbour { autoscaler, pod, running, standing: *standing, group, shrinks });
            }
        }
        ledger.groups.extend(self.groups);
    }

    fn group(&self, member: &Member) -> Option<&Group> {
        self.groups.get(member.group?)
    }

    fn waited(&self, member: &Member) -> Duration {
        let Context { memory, now, .. } = self.context;
        let since = member.running.resizes.first().and_then(|condition| condition.since);
        memory.resizing_for(&member.pod.uid, now).max(since.map_or(Duration::ZERO, |since| now.since(since)))
    }

    /// Whether the pod may be evicted as far as its group is concerned. One of which nobody knows whether it was may be tried
    /// again: it counts already.
    fn may_evict(&self, member: &Member) -> bool {
        match member.pending {
            Some(pending) if pending.disruption == Disruption::Eviction => pending.may_retry,
            Some(_) => false,
            None => {
                let waited = self.waited(member);
                in_place::may_evict(self.group(member), member.standing, member.running, waited)
            }
        }
    }

    fn evict(&mut self, candidate: &Candidate, ledger: &mut Ledger) -> Result<Act, SkipReason> {
        let Member { pod, pending, .. } = candidate.member;
        if !self.may_evict(candidate.member) {
            return Err(SkipReason::NoRoom);
        }
        self.rests(candidate.member, ledger)?;
        if pending.is_none() {
            let Context { memory, now, .. } = self.context;
            let in_vain_for = memory.in_vain_for(&self.autoscaler.key, &pod.uid, &self.recommendation, now);
            if let Some(left) = in_vain_for.filter(|_| candidate.why == Why::OutsideBounds) {
                ledger.wake_in(left);
                return Err(SkipReason::InVain);
            }
            self.spend(candidate.member, Disruption::Eviction, ledger)?;
        }
        Ok(self.act_on(candidate.member, What::Evict, candidate.why, Disruption::Eviction))
    }

    /// An error while the pod is left alone after a refusal.
    fn rests(&self, member: &Member, ledger: &mut Ledger) -> Result<(), SkipReason> {
        let Some(left) = self.context.memory.pause_left(&member.pod.uid, self.context.now) else { return Ok(()) };
        ledger.wake_in(left);
        Err(SkipReason::BackingOff)
    }

    /// Takes the pod out of its group and out of the budgets that cover it, if these allow it.
    fn spend(&mut self, member: &Member, disruption: Disruption, ledger: &mut Ledger) -> Result<(), SkipReason> {
        let stops_serving =
            disruption == Disruption::Restart && member.standing == (Standing::Running { serves: true });
        if stops_serving && !self.group(member).is_some_and(|group| group.allows(disruption, member.standing)) {
            return Err(SkipReason::NoRoom);
        }
        if let Some(reason) = ledger.budgets.refusal(disruption, member.pod, member.running) {
            return Err(reason);
        }
        ledger.budgets.spend(disruption, member.pod, member.running, self.context.now);
        if let Some(group) = member.group.and_then(|index| self.groups.get_mut(index)) {
            group.take(disruption, member.standing);
        }
        Ok(())
    }

    fn act_on(&self, member: &Member, what: What, why: Why, disruption: Disruption) -> Act {
        Act {
            autoscaler: self.autoscaler.key.clone(),
            pod: member.pod.key.clone(),
            pod_uid: member.pod.uid.clone(),
            what,
            why,
            recommendation: Arc::clone(&self.recommendation),
            disruption,
        }
    }

    fn resize_or_evict(&mut self, candidate: &Candidate, ledger: &mut Ledger) -> Result<Act, SkipReason> {
        let member = candidate.member;
        match member.pending {
            Some(pending) if pending.disruption == Disruption::Eviction => return self.evict(candidate, ledger),
            Some(_) => return Err(SkipReason::AlreadyAsked),
            None => {}
        }
        let resize = self.wanted(member);
        if revert::keeps(member.running, self.context.now) && revert::takes_memory(member.running, &resize.wanted) {
            return Err(SkipReason::Reverted);
        }
        let resizing = Resizing::of(member.running);
        match self.question(member, resize.disruption).answer(self.context.settings) {
            InPlace::Approved => self.resize(candidate, &resize, ledger),
            InPlace::Evict => self.evict(candidate, ledger),
            InPlace::InfeasibleCached => Err(SkipReason::KnownInfeasible),
            InPlace::Infeasible if resize.is_change => self.resize(candidate, &resize, ledger),
            InPlace::Infeasible => {
                let attempt = self.attempt(member.running);
                ledger.infeasible.push((self.autoscaler.key.clone(), member.pod.uid.clone(), attempt));
                Err(SkipReason::KnownInfeasible)
            }
            // What waits for room can be asked anew; what is being done is let be done.
            InPlace::Deferred
                if self.mode == EffectiveUpdateMode::InPlace && resizing == Resizing::Deferred && resize.is_change =>
            {
                let allows = |group: &Group| group.allows(resize.disruption, member.standing);
                if self.group(member).is_some_and(allows) {
                    self.resize(candidate, &resize, ledger)
                } else {
                    Err(SkipReason::NoRoom)
                }
            }
            InPlace::Deferred if resizing == Resizing::No => Err(SkipReason::NoRoom),
            InPlace::Deferred => {
                let waited = self.waited(member);
                if let Some(patience) = resizing.patience().filter(|_| !resizing.is_given_up(waited)) {
                    ledger.wake_in(patience.saturating_sub(waited).max(Duration::from_secs(1)));
                }
                Err(SkipReason::AlreadyAsked)
            }
        }
    }

    fn question<'q>(&'q self, member: &Member<'q>, disruption: Disruption) -> Question<'q> {
        Question {
            mode: self.mode,
            running: member.running,
            standing: member.standing,
            group: self.group(member),
            has_recommendation: self.has_recommendation,
            is_cached: self.context.memory.is_infeasible(&member.pod.uid, &self.recommendation),
            waited: self.waited(member),
            disruption,
        }
    }

    /// Resizes, unless it is known that this would not work.
    fn resize(&mut self, candidate: &Candidate, resize: &Resize, ledger: &mut Ledger) -> Result<Act, SkipReason> {
        let member = candidate.member;
        if !resize.is_change {
            return Err(SkipReason::AlreadyAsked);
        }
        self.rests(member, ledger)?;
        let patch = resize_patch::resize(member.running, &resize.wanted);
        if let Some(reason) = self.obstacle(member, resize, &patch, ledger) {
            let evicts = self.mode == EffectiveUpdateMode::InPlaceOrRecreate;
            return if evicts { self.evict(candidate, ledger) } else { Err(reason) };
        }
        self.spend(member, resize.disruption, ledger)?;
        let mut annotate = resize_patch::annotate(member.running, self.spec, self.context.now);
        if let Some(note) = revert::note(member.pod, member.running, &resize.wanted, self.context.now) {
            annotate.0.push(resize_patch::set_annotation(revert::RESIZED_FROM, &note));
        }
        let what = What::Resize { resize: patch, annotate, attempt: self.attempt(member.running) };
        Ok(self.act_on(member, what, candidate.why, resize.disruption))
    }

    /// Why a resize would not work.
    fn obstacle(&self, member: &Member, resize: &Resize, patch: &Patch, ledger: &mut Ledger) -> Option<SkipReason> {
        let Context { memory, now, .. } = self.context;
        if qos::would_change(member.running, &resize.wanted) {
            return Some(SkipReason::QosClass);
        }
        if let Some(ago) = memory.refused_ago(&member.pod.uid, patch, now) {
            if self.mode == EffectiveUpdateMode::InPlaceOrRecreate {
                return Some(SkipReason::Refused);
            }
            let left = REFUSED_PAUSE.saturating_sub(ago);
            if !left.is_zero() {
                ledger.wake_in(left);
                return Some(SkipReason::Refused);
            }
        }
        let shape = self.shape(member.running)?;
        let known = memory.is_infeasible_on(&self.autoscaler.key, shape, &self.recommendation);
        known.then_some(SkipReason::KnownInfeasible)
    }

    fn wanted(&self, member: &Member) -> Resize {
        let recommended = self.has_recommendation.then_some(self.recommendation.as_ref());
        let sizes = size::sizes(recommended, member.running, self.spec, &self.limits);
        Resize::new(member.running, resize_patch::wanted(member.running, self.spec, sizes, self.context.now))
    }

    fn attempt(&self, running: &Running) -> Attempt {
        Attempt { recommendation: Arc::clone(&self.recommendation), shape: self.shape(running) }
    }

    /// What the pod's node has.
    fn shape(&self, running: &Running) -> Option<Shape> {
        let node = self.context.scene.view.nodes.get(running.node.as_ref()?)?;
        Some(Shape { cpu: node.allocatable.cpu, memory: node.allocatable.memory })
    }
}

impl Resize {
    fn new(running: &Running, wanted: Wanted) -> Self {
        let mut changes = resize_patch::changes(running, &wanted).peekable();
        let is_change = changes.peek().is_some();
        let restarts = changes.any(|(container, name, _)| container.restarts_for.contains(name));
        drop(changes);
        Self { wanted, disruption: if restarts { Disruption::Restart } else { Disruption::Resize }, is_change }
    }
}

/// The pods of an autoscaler. Groups with too few pods are dealt with where something can be done that disrupts nothing.
fn of<'a>(context: Context<'a>, matched: &Matched<'a>, mode: EffectiveUpdateMode) -> Members<'a> {
    let in_place = matches!(mode, EffectiveUpdateMode::InPlace | EffectiveUpdateMode::InPlaceOrRecreate);
    let skips = in_place && context.settings.in_place_skips_budget;
    let keeps_small = move |members: &[Member]| skips || members.iter().any(|member| boost::is_boosted(member.running));
    members(matched, context.scene.view, context.memory, context.settings, &keeps_small)
}

/// What is recommended: what was heard last, else what the object says.
fn recommendation_of(scene: &Scene, autoscaler: &Autoscaler) -> Option<Arc<Recommendation>> {
    if let Some(heard) = scene.recommendations.get(autoscaler.uid()) {
        return Some(Arc::clone(heard));
    }
    let status = autoscaler.object.status.as_ref()?;
    status.recommendation.clone().map(|recommendation| Arc::new(recommendation.into()))
}
