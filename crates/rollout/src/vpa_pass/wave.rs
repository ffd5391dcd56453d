//! The wave of new requests through the pods of a VPA object, see [`crate::limits::wave`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::rollback::{ROLLED_BACK, Rollback};
use jiff::{SignedDuration, Timestamp};
use model::{ContainerRecommendation, Quantity, Recommendation, ResourceList, ResourceName};
use view::{ContainerState, Owner, Phase, Pod};

use super::health::Health;
use super::{Candidate, Group, Member, PassContext, VpaPass};
use crate::action::ActionReason;
use crate::limits::pod_health::HealthQuery;
use crate::limits::vpa_pause::{PausedVpa, VpaPauseReason};
use crate::limits::wave::{Failure, JUDGED_FOR, MIN_PODS, Wave};
use crate::plan::RollbackChange;
use crate::plan_builder::PlanBuilder;
use crate::resize::oom_kill::last_oom_kill;
use crate::resize::pod_size::{requests, sized_containers};
use crate::resize::resize_status::ResizeStatus;
use crate::resize::rolling_update::Replacement;
use crate::selection::priority::Priority;
use crate::skip::SkipReason;

/// The time after which a rolled back recommendation is tried again.
const TRIED_AGAIN_AFTER: Duration = Duration::from_hours(24);
/// Multiple of the slowest start of a pod of the workload after which another one is late.
const LATE: u32 = 2;

/// The first pod that fails with the recommended requests.
struct Failing<'a> {
    pod: &'a Pod,
    failure: Failure<'a>,
    /// The time from which on the pod has its requests.
    since: Timestamp,
    /// Pods of its revision with other requests: those of another one may fail for what that has.
    others: Vec<&'a Member<'a>>,
}

impl VpaPass<'_> {
    /// Reports an object whose recommendation is rolled back, and ends that in time.
    pub(super) fn report_rollback(&self, builder: &mut PlanBuilder) {
        let annotations = self.vpa.object.metadata.annotations.as_ref();
        if !annotations.is_some_and(|it| it.contains_key(ROLLED_BACK)) {
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

    /// The number of candidates that the wave allows to be updated, and the reason of the others; `None`
    /// without limit. Rolls the recommendation back if pods got worse with it.
    pub(super) fn wave(
        &self,
        members: &[Member],
        candidates: &[Candidate],
        builder: &mut PlanBuilder,
    ) -> Option<(usize, SkipReason)> {
        if !candidates.iter().any(Candidate::is_in_wave) {
            return None;
        }
        let replaces_all =
            self.replacement == Replacement::RollingUpdate && !self.resizes_in_place();
        // A rollback has no waves: the former requests are proven.
        let is_off = self.context.settings.waves.is_none() || self.rollback.is_some();
        // One that was evicted counts until its replacement is there.
        if is_off || members.len() + self.missing() < MIN_PODS || replaces_all {
            return None;
        }
        let queries = self.health_queries();
        let (wave, failing) = self.count(members, &queries);
        builder.plan.health_queries.extend(queries);
        // An annotation that is over goes first.
        let is_free = builder.plan.rollbacks.is_empty();
        if is_free
            && wave.is_worse()
            && let Some(failing) = failing
        {
            let Failing { pod, failure, .. } = &failing;
            let rollback = Rollback {
                at: self.context.now.wall,
                problem: format!("{wave}; {}: {failure}", pod.key.name),
                refused: self.recommendation.as_ref().clone(),
                former: former(&self.recommendation, &failing.others),
            };
            builder
                .plan
                .rollbacks
                .push(self.rollback_change(Some(rollback)));
            return Some((0, SkipReason::Wave));
        }
        let is_unknown = wave.unknown > 0;
        let reason = if is_unknown {
            SkipReason::HealthUnknown
        } else {
            SkipReason::Wave
        };
        Some((wave.allowed(), reason))
    }

    pub(super) fn proven_after(&self) -> Duration {
        let waves = self.context.settings.waves;
        waves.unwrap_or_default().proven_after
    }

    fn rollback_change(&self, rollback: Option<Rollback>) -> Arc<RollbackChange> {
        Arc::new(RollbackChange {
            vpa: self.vpa.key.clone(),
            uid: self.vpa.uid().to_owned(),
            rollback,
        })
    }

    /// The numbers of pods, and the first one that fails with the recommended requests.
    fn count<'m>(
        &self,
        members: &'m [Member<'m>],
        queries: &[HealthQuery],
    ) -> (Wave, Option<Failing<'m>>) {
        let PassContext { state, now, .. } = self.context;
        let proven_after = self.proven_after();
        let mut wave = Wave {
            underway: self.missing_since_eviction(),
            ..Wave::default()
        };
        let is_other = |it: &&Member| !self.is_underway(it) && !self.has(&self.recommendation, it);
        let (others, changed): (Vec<&Member>, Vec<&Member>) = members.iter().partition(is_other);
        let slowest = members.iter().filter_map(|it| it.pod.ready_after_seconds);
        let slowest = Duration::from_secs(slowest.max().unwrap_or(0).max(0).unsigned_abs());
        let late_after = proven_after.max(slowest.saturating_mul(LATE));
        let mut first: Option<Failing> = None;
        for member in changed {
            if self.is_underway(member) {
                wave.underway += 1;
                continue;
            }
            let sized_for = state.sized_for(&member.pod.uid, now);
            let since = now.wall - SignedDuration::try_from(sized_for).unwrap_or_default();
            let was_well = !state.was_unready_when_sized(&member.pod.uid);
            let failure = failure(member, since, sized_for, late_after);
            let mut failure = failure.filter(|it| was_well && may_be_caused(it, member, &others));
            let well_for = (member.running.ready_since).map(|ready| now.since(ready.max(since)));
            if failure.is_none()
                && let Some(well_for) = well_for.filter(|it| *it >= proven_after)
            {
                match self.health(queries, member, &others, well_for) {
                    Health::Well => {
                        wave.proven += 1;
                        continue;
                    }
                    Health::Unread => {}
                    Health::Unknown => wave.unknown += 1,
                    Health::Worse(worse) => failure = was_well.then_some(worse),
                }
            }
            if sized_for >= JUDGED_FOR {
                continue;
            }
            wave.unproven += 1;
            let due = [proven_after, late_after, JUDGED_FOR].into_iter();
            let due = due.filter_map(|it| it.checked_sub(sized_for));
            let proven_in = well_for.and_then(|it| proven_after.checked_sub(it));
            self.recheck_in(due.chain(proven_in).filter(|it| !it.is_zero()).min());
            if let Some(failure) = failure {
                wave.failing += 1;
                let pod = member.pod;
                first.get_or_insert_with(|| {
                    let others = others.iter().copied();
                    let others = others.filter(|it| revision(it.pod) == revision(pod));
                    Failing {
                        pod,
                        failure,
                        since,
                        others: others.collect(),
                    }
                });
            }
        }
        if let Some(Failing { since, others, .. }) = &first {
            wave.others = others.len();
            let fails = |it: &&&Member| {
                it.running.ready_since.is_none() || ended_since(it.pod, *since).is_some()
            };
            wave.failing_others = others.iter().filter(fails).count();
        }
        (wave, first)
    }

    /// Pods that the workloads lack a short time after an eviction: their replacements have no node yet.
    fn missing_since_eviction(&self) -> usize {
        let PassContext { state, now, .. } = self.context;
        let evicted_at = state.evictions.last(&self.vpa.key);
        let left = evicted_at.and_then(|at| now.left(at.saturating_add(JUDGED_FOR)));
        if left.is_none() {
            return 0;
        }
        self.recheck_in(left);
        self.missing()
    }

    /// Pods that the workloads lack, or that have no node.
    fn missing(&self) -> usize {
        let missing = self.groups.iter().map(Group::missing).sum::<i64>();
        usize::try_from(missing).unwrap_or(0)
    }

    /// Whether a pod gets other requests now, or has those of a startup boost.
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
        let left = JUDGED_FOR.checked_sub(state.sized_for(&member.pod.uid, now));
        let left = left.filter(|left| !left.is_zero());
        let lasts = is_resizing || self.is_boosted(member);
        if lasts {
            self.recheck_in(left);
        }
        member.pending.is_some() || lasts && left.is_some()
    }

    /// Whether a pod has the requests of a recommendation in effect.
    pub(super) fn has(&self, recommendation: &Recommendation, member: &Member) -> bool {
        let settings = self.context.settings;
        let own = self
            .to_size(member, &self.limit_modes)
            .capped(recommendation);
        let priority = Priority::of(member.running, &own, settings.native_sidecars);
        !priority.outside_recommended_range && priority.resource_diff < settings.update_threshold
    }
}

/// Whether a fault may come of the new requests: an OOM kill does not with as much memory as others have.
fn may_be_caused(failure: &Failure, member: &Member, others: &[&Member]) -> bool {
    let Failure::OomKilled(container) = failure else {
        return true;
    };
    let memory = |it: &Member| request(it, container, &ResourceName::Memory);
    others.iter().any(|other| memory(other) > memory(member))
}

/// Owner and revision of a pod.
pub(super) fn revision(pod: &Pod) -> (Option<&Owner>, [Option<&str>; 2]) {
    let labels = ["controller-revision-hash", "pod-template-hash"];
    (
        pod.owner.as_ref(),
        labels.map(|label| pod.labels.get(label)),
    )
}

/// The request of a container.
fn request(member: &Member, container: &str, resource: &ResourceName) -> Option<Quantity> {
    let mut containers = sized_containers(member.running, true);
    let found = containers.find(|it| it.name == container)?;
    requests(found).get(resource).cloned()
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
    sized_for: Duration,
    late_after: Duration,
) -> Option<Failure<'a>> {
    // A pending pod may wait for its image.
    let is_late = member.running.ready_since.is_none()
        && member.pod.phase != Phase::Pending
        && sized_for >= late_after;
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

/// The requests of pods as a recommendation: of each the most frequent one, and the largest of these.
fn former(refused: &Recommendation, pods: &[&Member]) -> Recommendation {
    let containers = refused.containers.iter().map(|refused| {
        let name = &refused.container_name;
        let mut amounts = ResourceList::default();
        for (resource, _) in refused.target.iter() {
            let mut counts: BTreeMap<Quantity, usize> = BTreeMap::new();
            for amount in pods.iter().filter_map(|pod| request(pod, name, resource)) {
                *counts.entry(amount).or_default() += 1;
            }
            if let Some((amount, _)) = counts.into_iter().max_by_key(|(_, count)| *count) {
                amounts.insert(resource.clone(), amount);
            }
        }
        ContainerRecommendation {
            container_name: name.clone(),
            target: amounts.clone(),
            lower_bound: amounts.clone(),
            upper_bound: amounts,
            uncapped_target: ResourceList::default(),
        }
    });
    Recommendation {
        containers: containers.collect(),
    }
}
