//! The state that decisions keep between passes: actions in flight, backoffs, refused and
//! infeasible resizes, and the decisions themselves.
//!
//! All of it is about pods and VPA objects that the view shows. A restart loses it. Then the
//! cluster's own state is enough: evicted pods are missing, and resizes show in the pods.

mod backoff;
pub(crate) mod decision_cache;
mod in_flight;
mod ineffective_evictions;
mod infeasible;
mod missed_reviews;
mod move_history;
pub(crate) mod restart_pace;
mod rolling_updates;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use json_patch::Patch;
use model::{Memory, Recommendation, ResourceList};
use view::{Change, ClusterChangeTracker, ObjectKey, Pod, Resources, Running, View};

use crate::action::{Action, ActionKind, ActionOutcome, NodeCapacity};
use crate::clock::ClockReading;
use crate::limits::disruption_limit::Disruption;
use crate::limits::group_size::GroupSizes;
use crate::limits::pod_health::HealthReadings;
use crate::limits::settling::Settling;
use crate::limits::vpa_pause::WindowCache;
use crate::plan::Recommendations;
use crate::resize::oom_kill::{self, QuickOomKill};
use crate::resize::proven_acts::{Refutation, RefutedAct};
use crate::resize::resize_status::ResizeStatus;

use backoff::Backoff;
use decision_cache::DecisionCache;
pub(super) use in_flight::PendingAction;
use in_flight::{InFlight, Stage};
use ineffective_evictions::IneffectiveEvictions;
#[cfg(test)]
pub(super) use infeasible::is_any_lower;
use missed_reviews::MissedReviews;
pub(super) use move_history::{COOLDOWN, RebalancingHistory, is_stale, part_before, timestamp};
use restart_pace::RestartPaces;
use rolling_updates::RollingUpdates;

/// The time for which an OOM kill must have been seen before its pod is evicted: clients that poll
/// would miss the pod's status.
const OOM_KILL_EXPOSURE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
struct ObservedOomKill {
    ended_at: Timestamp,
    seen: Duration,
    /// Memory requests and limits of the pod's containers.
    memory: Vec<[Option<Memory>; 2]>,
    /// The first pass that saw this memory, by the wall clock.
    memory_since: Timestamp,
    /// Whether the memory has changed since the first kill that was observed.
    was_resized: bool,
}

#[derive(Debug, Clone)]
struct RejectedResize {
    patch: Patch,
    at: Duration,
    is_forbidden: bool,
}

/// A live pod that a pass saw. Times are of the monotonic clock.
#[derive(Debug, Clone, Default)]
struct ObservedPod {
    first_seen: Duration,
    /// The first pass that saw it with its requests.
    sized_since: Duration,
    /// Whether it was not ready before it got them by a resize.
    was_unready: bool,
    backoff: Backoff,
    /// Start of the resize that it shows.
    resizing_since: Option<Duration>,
    /// The last recommendation that was infeasible on its node.
    infeasible: Option<Arc<Recommendation>>,
    rejected_resize: Option<Box<RejectedResize>>,
    /// The last OOM kill that it shows, and its memory since then.
    oom_kill: Option<Box<ObservedOomKill>>,
    /// The refuted act that was reported last, and its time.
    reported_refutation: Option<(RefutedAct, Option<Timestamp>)>,
    /// The end of the last OOM kill that was recorded in events.
    recorded_oom_kill: Option<Timestamp>,
}

/// The state between passes, by the pods' unique identifiers. Times are of the monotonic clock.
#[derive(Debug, Clone, Default)]
pub struct RolloutState {
    in_flight: HashMap<String, InFlight>,
    pods: HashMap<String, ObservedPod>,
    /// The last infeasible recommendation of each VPA object on nodes of a capacity.
    infeasible: HashMap<(ObjectKey, NodeCapacity), Arc<Recommendation>>,
    pub(super) evictions: IneffectiveEvictions,
    pub(super) missed_reviews: MissedReviews,
    pub(super) paces: RestartPaces,
    pub(super) rolling_updates: RollingUpdates,
    pub(super) windows: WindowCache,
    /// VPA objects and namespaces within their settling time.
    pub(super) settling: Settling,
    /// The sizes of groups when they were last known.
    pub(super) group_sizes: GroupSizes,
    /// Heat of nodes and earlier moves.
    pub(super) rebalancing: RebalancingHistory,
    /// The objects at the last pass.
    pub(super) change_tracker: ClusterChangeTracker,
    pub(super) health: HealthReadings,
    pub(super) recommendations: Recommendations,
    /// The decisions that are still valid; `None` before a full pass.
    pub(super) decisions: Option<DecisionCache>,
}

impl RolloutState {
    /// Makes the next pass a full one, which decides about all VPA objects.
    pub fn forget_decisions(&mut self) {
        self.decisions = None;
    }

    /// Records that an action is about to be sent. It counts against all budgets from now on.
    pub fn begin(&mut self, action: &Action, now: ClockReading) {
        if matches!(action.kind, ActionKind::RollingUpdate(_)) {
            self.mark(action);
            self.paces.begin(action, now);
            return self.rolling_updates.begin(action);
        }
        let earlier = self.in_flight.get(&action.pod_uid);
        if earlier.is_none() {
            self.paces.begin(action, now);
        }
        let in_flight = InFlight::new(action, earlier, now);
        self.in_flight.insert(action.pod_uid.clone(), in_flight);
        // Moves have pauses of their own.
        if action.kind == ActionKind::Evict && action.relocation.is_none() {
            let first_seen = self.first_seen(&action.pod_uid);
            self.evictions.record(action, first_seen, now);
        }
        if let Some(relocation) = &action.relocation {
            self.rebalancing.record(&action.pod_uid, relocation, now);
        }
    }

    /// Records the outcome of an action, and has the next pass decide about its VPA object.
    pub fn end(&mut self, action: &Action, outcome: &ActionOutcome, now: ClockReading) {
        self.mark(action);
        if matches!(action.kind, ActionKind::RollingUpdate(_)) {
            return self.rolling_updates.end(action, outcome, now);
        }
        let uid = &action.pod_uid;
        match outcome {
            ActionOutcome::Accepted { generation } => {
                if let Some(pod) = self.pods.get_mut(uid) {
                    pod.backoff = Backoff::default();
                }
                let generation = *generation;
                self.set_stage(uid, Stage::Accepted { generation }, now);
            }
            ActionOutcome::PodGone => {
                self.set_stage(uid, Stage::Accepted { generation: None }, now);
            }
            ActionOutcome::Unknown => {
                self.back_off(uid, None, now);
                self.set_stage(uid, Stage::Unknown, now);
            }
            ActionOutcome::TooManyRequests { retry_after } => {
                self.paces.retract(action);
                self.back_off(uid, *retry_after, now);
                self.rebalancing.retract(uid);
                self.retract(uid);
            }
            ActionOutcome::Infeasible
            | ActionOutcome::Forbidden
            | ActionOutcome::Rejected
            | ActionOutcome::RollingUpdateRefused(_) => {
                self.paces.retract(action);
                self.retract(uid);
                match &action.kind {
                    ActionKind::Evict | ActionKind::RollingUpdate(_) => {
                        self.back_off(uid, None, now);
                        self.rebalancing.retract(uid);
                    }
                    ActionKind::Resize { patch, attempt, .. } => {
                        if let Some(pod) = self.pods.get_mut(uid) {
                            pod.rejected_resize = Some(Box::new(RejectedResize {
                                patch: patch.clone(),
                                at: now.monotonic,
                                is_forbidden: *outcome == ActionOutcome::Forbidden,
                            }));
                        }
                        if *outcome == ActionOutcome::Infeasible {
                            self.record_infeasible(&action.vpa, uid, attempt);
                        }
                    }
                }
            }
        }
    }

    /// Returns the OOM kill that an action answers, for events. Returns each kill once, however
    /// often the action is retried.
    pub fn unrecorded_oom_kill<'a>(&mut self, action: &'a Action) -> Option<&'a QuickOomKill> {
        let kill = action.oom_kill.as_ref()?;
        let pod = self.pods.get_mut(&action.pod_uid);
        let recorded = pod.and_then(|pod| pod.recorded_oom_kill.replace(kill.ended_at));
        (recorded != Some(kill.ended_at)).then_some(kill)
    }

    /// Whether a refuted act is to be reported. Each is once, however many passes and kills
    /// find it.
    pub fn is_new_refutation(&mut self, refutation: &Refutation) -> bool {
        let found = (refutation.act, refutation.acted_at);
        let pod = self.pods.get_mut(&refutation.pod_uid);
        pod.is_some_and(|pod| pod.reported_refutation.replace(found) != Some(found))
    }

    /// The first pass that saw an OOM killed pod with its present memory, by the wall clock, and
    /// whether the memory has changed since its first kill.
    pub(super) fn memory_since(&self, uid: &str) -> Option<(Timestamp, bool)> {
        let known = self.pods.get(uid)?.oom_kill.as_ref()?;
        Some((known.memory_since, known.was_resized))
    }

    pub fn pending_disruption(&self, uid: &str) -> Option<Disruption> {
        self.pending(uid).map(|pending| pending.disruption)
    }

    pub(super) fn pending(&self, uid: &str) -> Option<PendingAction> {
        self.in_flight.get(uid).map(InFlight::pending)
    }

    /// The first pass that saw a live pod.
    pub(super) fn first_seen(&self, uid: &str) -> Option<Duration> {
        self.pods.get(uid).map(|pod| pod.first_seen)
    }

    /// The time for which a pod has been seen with its requests.
    pub(super) fn sized_for(&self, uid: &str, now: ClockReading) -> Duration {
        let pod = self.pods.get(uid);
        pod.map_or(Duration::ZERO, |pod| {
            now.monotonic.saturating_sub(pod.sized_since)
        })
    }

    /// Whether a pod was not ready before its resize: what ails it came earlier.
    pub(super) fn was_unready_when_sized(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|pod| pod.was_unready)
    }

    pub(super) fn backoff_left(&self, uid: &str, now: ClockReading) -> Option<Duration> {
        now.left(self.pods.get(uid)?.backoff.until)
    }

    /// The time since the API server rejected this very resize, and whether that was forbidden: the
    /// pod's replacement might be, too.
    pub(super) fn rejected(
        &self,
        uid: &str,
        resize: &Patch,
        now: ClockReading,
    ) -> Option<(Duration, bool)> {
        let rejected = self.pods.get(uid)?.rejected_resize.as_ref()?;
        let ago = now.monotonic.saturating_sub(rejected.at);
        (rejected.patch == *resize).then_some((ago, rejected.is_forbidden))
    }

    /// The time for which a pod has been seen resizing.
    pub(super) fn resizing_for(&self, uid: &str, now: ClockReading) -> Duration {
        let since = self.pods.get(uid).and_then(|pod| pod.resizing_since);
        since.map_or(Duration::ZERO, |since| now.monotonic.saturating_sub(since))
    }

    /// The time for which the status of a pod's last OOM kill must still be exposed.
    pub(super) fn oom_kill_exposure_left(&self, uid: &str, now: ClockReading) -> Option<Duration> {
        let seen = self.pods.get(uid)?.oom_kill.as_ref()?.seen;
        now.left(seen.saturating_add(OOM_KILL_EXPOSURE))
    }

    /// Takes in changed pods, and forgets pods that are gone or terminating. Ends actions whose
    /// effect the view shows.
    pub(super) fn observe(&mut self, pods: &[Change<Pod>], view: &View, now: ClockReading) {
        for Change { old, new } in pods {
            let new = new.as_ref().and_then(|pod| Some((pod, live(pod)?)));
            if let Some(gone) = old
                .as_ref()
                .filter(|old| new.is_none_or(|(new, _)| new.uid != old.uid))
            {
                self.in_flight.remove(&gone.uid);
                self.pods.remove(&gone.uid);
            }
            if let Some((pod, running)) = new {
                let old = old.as_ref().filter(|old| old.uid == pod.uid);
                let is_resized = old.is_some_and(|old| is_resized(old, pod));
                self.observe_pod(pod, running, now);
                if let Some(observed) = self.pods.get_mut(&pod.uid).filter(|_| is_resized) {
                    let old = old.and_then(|old| old.running.as_ref());
                    observed.sized_since = now.monotonic;
                    observed.was_unready = old.is_some_and(|old| old.ready_since.is_none());
                }
            }
        }
        let decisions = &mut self.decisions;
        self.in_flight.retain(|uid, in_flight| {
            // While it lasts, time alone may change the decision.
            if let Some(decisions) = decisions {
                decisions.matched.mark_pod(&in_flight.pod);
            }
            let pod = view.pods.get(&in_flight.pod).filter(|pod| pod.uid == *uid);
            pod.and_then(|pod| live(pod))
                .is_some_and(|running| !in_flight.is_over(running, now))
        });
    }

    fn observe_pod(&mut self, pod: &Pod, running: &Running, now: ClockReading) {
        let observed = self.pods.entry(pod.uid.clone()).or_insert_with(|| {
            self.rebalancing.observe_pod(pod, running);
            ObservedPod {
                first_seen: now.monotonic,
                sized_since: now.monotonic,
                ..ObservedPod::default()
            }
        });
        if let Some(at) = last_oom_kill(pod) {
            let memory = pod.containers.iter().map(|it| [it.requests, it.limits]);
            let of_pod = pod.resources.iter().map(|it| [it.requests, it.limits]);
            let memory = memory.chain(of_pod);
            let memory: Vec<_> = memory.map(|lists| lists.map(|list| list.memory)).collect();
            let known = observed.oom_kill.get_or_insert_with(|| {
                Box::new(ObservedOomKill {
                    ended_at: at,
                    seen: now.monotonic,
                    memory: memory.clone(),
                    memory_since: now.wall,
                    was_resized: false,
                })
            });
            if known.ended_at != at {
                (known.ended_at, known.seen) = (at, now.monotonic);
            }
            if known.memory != memory {
                known.was_resized = true;
                (known.memory, known.memory_since) = (memory, now.wall);
            }
        } else {
            observed.oom_kill = None;
        }
        let since = observed.resizing_since.unwrap_or(now.monotonic);
        let is_resizing = ResizeStatus::of(running) != ResizeStatus::NotResizing;
        observed.resizing_since = is_resizing.then_some(since);
    }

    /// Forgets VPA objects that the view does not show: outcomes may arrive after a deletion.
    pub(super) fn forget_missing_vpas(&mut self, view: &View) {
        let exists = |vpa: &ObjectKey| view.vpas.get(vpa).is_some();
        self.infeasible.retain(|(vpa, _), _| exists(vpa));
        self.evictions.0.retain(|vpa, _| exists(vpa));
        self.missed_reviews.0.retain(|vpa, _| exists(vpa));
        self.rolling_updates.0.retain(|vpa, _| exists(vpa));
    }

    /// Has the next pass decide about the VPA object of an action, and about all that shares a
    /// budget with its pod.
    fn mark(&mut self, action: &Action) {
        if let Some(decisions) = &mut self.decisions {
            let matched = &mut decisions.matched;
            matched.mark_pod(&action.pod);
            matched.mark_vpa(&action.vpa.namespace, &action.vpa.name);
        }
    }

    fn set_stage(&mut self, uid: &str, stage: Stage, now: ClockReading) {
        if let Some(in_flight) = self.in_flight.get_mut(uid) {
            in_flight.set_stage(stage, now);
        }
    }

    /// Takes back a refused action, but not an earlier one of unknown outcome.
    fn retract(&mut self, uid: &str) {
        if let Some(earlier) = self.in_flight.remove(uid).and_then(InFlight::retracted) {
            self.in_flight.insert(uid.to_owned(), earlier);
        }
    }

    /// Begins the next backoff of a pod. Pods that are gone have none.
    fn back_off(&mut self, uid: &str, at_least: Option<Duration>, now: ClockReading) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.backoff.extend(at_least, now);
        }
    }
}

fn live(pod: &Pod) -> Option<&Running> {
    pod.running
        .as_deref()
        .filter(|running| !running.is_terminating)
}

/// Whether requests differ, as written or in effect.
fn is_resized(old: &Pod, new: &Pod) -> bool {
    let in_effect = |pod: &Pod| -> Vec<Resources> {
        let of_pod = pod.resources.iter().map(|it| it.requests);
        let containers = pod.containers.iter().map(|it| it.requests);
        containers.chain(of_pod).collect()
    };
    let written = |pod: &Pod| -> Vec<Option<ResourceList>> {
        let running = pod.running.iter();
        let specified = running.flat_map(|it| it.containers.iter().chain(it.whole.as_deref()));
        specified.map(|it| it.requests.clone()).collect()
    };
    in_effect(old) != in_effect(new) || written(old) != written(new)
}

fn last_oom_kill(pod: &Pod) -> Option<Timestamp> {
    pod.containers
        .iter()
        .filter_map(oom_kill::last_oom_kill)
        .filter_map(|killed| killed.finished_at)
        .max()
}
