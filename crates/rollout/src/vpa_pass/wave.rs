//! The wave of new requests through the pods of a VPA object, see [`crate::limits::wave`].

use std::sync::Arc;
use std::time::Duration;

use api::rollback::Rollback;
use jiff::{SignedDuration, Timestamp};
use model::{ContainerRecommendation, Quantity, Recommendation, ResourceName};
use view::{ContainerState, Pod};

use super::{Candidate, Member, PassContext, VpaPass};
use crate::action::ActionReason;
use crate::limits::vpa_pause::{PausedVpa, VpaPauseReason};
use crate::limits::wave::{Failure, JUDGED_FOR, MIN_PODS, PROVEN_AFTER, Wave};
use crate::plan::RollbackChange;
use crate::plan_builder::PlanBuilder;
use crate::resize::oom_kill::last_oom_kill;
use crate::resize::pod_size::{requests, sized_containers};
use crate::resize::resize_status::ResizeStatus;
use crate::resize::rolling_update::Replacement;
use crate::selection::priority::Priority;

/// The time after which a rolled back recommendation is tried again.
const TRIED_AGAIN_AFTER: Duration = Duration::from_hours(24);
/// Multiple of the quickest start of a pod of the workload after which another one is late.
const LATE: u32 = 3;

/// A pod that fails.
struct Failing<'a> {
    pod: &'a Pod,
    failure: Failure<'a>,
}

impl VpaPass<'_> {
    /// Reports an object whose recommendation is rolled back, and ends that in time. `is_written` says whether
    /// the object has the annotation.
    pub(super) fn report_rollback(&self, is_written: bool, builder: &mut PlanBuilder) {
        if !is_written {
            return;
        }
        let now = self.context.now;
        let left = |rollback: &Rollback| now.until(rollback.at, TRIED_AGAIN_AFTER);
        let rollback = self.rollback.as_ref();
        let Some((Rollback { at, problem, .. }, left)) =
            rollback.and_then(|it| Some((it, left(it)?)))
        else {
            builder.plan.rollbacks.push(self.rollback_change(None));
            return;
        };
        self.recheck_in(Some(left));
        builder.plan.paused.push(Arc::new(PausedVpa {
            vpa: self.vpa.key.clone(),
            reason: VpaPauseReason::RolledBack(format!(
                "The recommendation was rolled back at {at:.0}: {problem}"
            )),
        }));
    }

    /// The number of candidates that the wave allows to be updated; `None` without limit. Rolls the
    /// recommendation back if pods got worse with it.
    pub(super) fn wave(
        &self,
        members: &[Member],
        candidates: &[Candidate],
        builder: &mut PlanBuilder,
    ) -> Option<usize> {
        let first = candidates.iter().find(|it| it.is_in_wave())?;
        let replaces_all =
            self.replacement == Replacement::RollingUpdate && !self.resizes_in_place();
        // A rollback has no waves: the former requests are proven.
        let is_off = !self.context.settings.waves || self.rollback.is_some();
        if is_off || members.len() < MIN_PODS || replaces_all {
            return None;
        }
        let (wave, failing) = self.count(members);
        if wave.is_worse()
            && let Some(Failing { pod, failure }) = failing
        {
            let problem = format!("{wave}; {}: {failure}", pod.key.name);
            let rollback = Rollback {
                at: self.context.now.wall,
                problem,
                refused: self.recommendation.as_ref().clone(),
                former: former(&self.recommendation, first, candidates),
            };
            builder
                .plan
                .rollbacks
                .push(self.rollback_change(Some(rollback)));
            return Some(0);
        }
        Some(wave.allowed())
    }

    fn rollback_change(&self, rollback: Option<Rollback>) -> Arc<RollbackChange> {
        Arc::new(RollbackChange {
            vpa: self.vpa.key.clone(),
            uid: self.vpa.uid().to_owned(),
            rollback,
        })
    }

    /// The numbers of pods, and the first one that fails with the recommended requests.
    fn count<'m>(&self, members: &[Member<'m>]) -> (Wave, Option<Failing<'m>>) {
        let PassContext { state, now, .. } = self.context;
        let quickest = members.iter().filter_map(|it| it.pod.ready_after_seconds);
        let quickest = Duration::from_secs(quickest.min().unwrap_or(0).max(0).unsigned_abs());
        let late_after = PROVEN_AFTER.max(quickest * LATE);
        let (mut wave, mut first) = (Wave::default(), None);
        let mut others = Vec::new();
        let mut failing_since = now.wall;
        for member in members {
            let for_how_long = state.sized_for(&member.pod.uid, now);
            let since = now.wall - SignedDuration::try_from(for_how_long).unwrap_or_default();
            if self.is_underway(member) {
                wave.underway += 1;
                continue;
            }
            if !self.has_new_requests(member) {
                others.push(member.pod);
                continue;
            }
            let failure = failure(member, since, for_how_long, late_after);
            let running = member.running;
            let well_for = running.ready_since.map(|ready| now.since(ready.max(since)));
            if failure.is_none() && well_for.is_some_and(|it| it >= PROVEN_AFTER) {
                wave.proven += 1;
            } else if for_how_long < JUDGED_FOR {
                wave.unproven += 1;
                let due = [PROVEN_AFTER, late_after, JUDGED_FOR].into_iter();
                let due = due.filter_map(|it| it.checked_sub(for_how_long));
                let proven_in = well_for.and_then(|it| PROVEN_AFTER.checked_sub(it));
                self.recheck_in(due.chain(proven_in).filter(|it| !it.is_zero()).min());
                if let Some(failure) = failure {
                    wave.failing += 1;
                    failing_since = failing_since.min(since);
                    let pod = member.pod;
                    first.get_or_insert(Failing { pod, failure });
                }
            }
        }
        wave.others = others.len();
        let failing = others.iter().filter(|pod| {
            let ended = ended_since(pod, failing_since);
            ended.is_some()
                || pod
                    .running
                    .as_ref()
                    .is_some_and(|it| it.ready_since.is_none())
        });
        wave.failing_others = failing.count();
        (wave, first)
    }

    /// Whether a pod gets other requests now.
    fn is_underway(&self, member: &Member) -> bool {
        let PassContext { state, now, .. } = self.context;
        let running = member.running;
        let is_unseen = (running.observed_generation.zip(running.generation))
            .is_some_and(|(observed, generation)| observed < generation);
        let is_resizing = match ResizeStatus::of(running) {
            ResizeStatus::NotResizing => is_unseen,
            ResizeStatus::Deferred | ResizeStatus::Infeasible => false,
            _ => true,
        };
        member.pending.is_some()
            || is_resizing && state.resizing_for(&member.pod.uid, now) < JUDGED_FOR
    }

    /// Whether a pod has the recommended requests in effect.
    fn has_new_requests(&self, member: &Member) -> bool {
        let settings = self.context.settings;
        let own = self.pod_recommendation(member);
        let priority = Priority::of(member.running, &own, settings.native_sidecars);
        !priority.outside_recommended_range && priority.resource_diff < settings.update_threshold
    }
}

impl Candidate<'_> {
    /// Whether it is updated for its size alone, and not underway.
    pub(super) fn is_in_wave(&self) -> bool {
        let is_for_size = matches!(
            self.reason,
            ActionReason::OutsideBounds | ActionReason::Drift
        );
        is_for_size && self.member.pending.is_none()
    }
}

/// The fault of a pod since it has its requests, if there is one.
fn failure<'a>(
    member: &Member<'a>,
    since: Timestamp,
    for_how_long: Duration,
    late_after: Duration,
) -> Option<Failure<'a>> {
    let is_late = member.running.ready_since.is_none() && for_how_long >= late_after;
    ended_since(member.pod, since).or(is_late.then_some(Failure::NotReady(late_after)))
}

/// A container that was OOM killed, or waits for its restart after an end, since a time.
fn ended_since(pod: &Pod, since: Timestamp) -> Option<Failure<'_>> {
    pod.containers.iter().find_map(|container| {
        let status = container.status.as_ref()?;
        let ended = status.last_termination.as_ref()?.finished_at?;
        // A kubelet reports whole seconds.
        if ended.as_second() < since.as_second() {
            return None;
        }
        if last_oom_kill(container).is_some() {
            return Some(Failure::OomKilled(&container.name));
        }
        let runs = status.state == ContainerState::Running;
        (!runs).then_some(Failure::BacksOff(&container.name))
    })
}

/// The requests of the candidates as a recommendation: those of the first one, and bounds that hold all.
fn former(refused: &Recommendation, first: &Candidate, candidates: &[Candidate]) -> Recommendation {
    let of = |candidate: &Candidate, container: &str, resource: &ResourceName| {
        let mut containers = sized_containers(candidate.member.running, true);
        let found = containers.find(|it| it.name == container)?;
        requests(found).get(resource).cloned()
    };
    let containers = refused.containers.iter().map(|refused| {
        let name = &refused.container_name;
        let mut former = ContainerRecommendation {
            container_name: name.clone(),
            ..ContainerRecommendation::default()
        };
        for (resource, _) in refused.target.iter() {
            let Some(target) = of(first, name, resource) else {
                continue;
            };
            let all = candidates.iter().filter_map(|it| of(it, name, resource));
            let all: Vec<Quantity> = all.collect();
            for (list, amount) in [
                (&mut former.target, Some(&target)),
                (&mut former.lower_bound, all.iter().min()),
                (&mut former.upper_bound, all.iter().max()),
            ] {
                let amount = amount.unwrap_or(&target).clone();
                list.insert(resource.clone(), amount);
            }
        }
        former
    });
    Recommendation {
        containers: containers.collect(),
    }
}
