//! What has to be remembered between decisions: what is on its way and not seen yet, and what was
//! refused.
//!
//! All of it is about pods that the view shows; what is about others is forgotten. What was decided
//! stays until what it was decided from changes. A restart forgets everything: then what the
//! cluster shows counts, which holds evictions once the list of pods is read anew.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use json_patch::Patch;
use model::{ContainerRecommendation, Recommendation};
use view::{Autoscaler, Change, ObjectKey, Pod, Running, View};

use super::action::{Action, ActionKind, ActionOutcome, NodeCapacity, QuickOomKill, ResizeAttempt};
use super::changes::ClusterChangeTracker;
use super::clock::ClockReading;
use super::decision_cache::DecisionCache;
use super::group::Disruption;
use super::group_size::GroupSizes;
use super::priority;
use super::resize_status::ResizeStatus;
use super::settling::Settling;
use super::vpa_pause::WindowCache;

/// After how long without an answer an act is taken not to have happened, when the pod is still
/// there.
const UNKNOWN_SETTLES: Duration = Duration::from_mins(2);
/// How long an accepted resize counts when the pod carries no generation to know it by.
const RESIZE_SETTLES: Duration = Duration::from_mins(1);
/// The first pause after a refusal; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, unless the API server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The longest pause that the API server may ask for.
const LONGEST_ASKED: Duration = Duration::from_mins(10);
/// How long pods that came back as they were are left alone the first time, when the webhook may
/// only not have heard yet of what is recommended; then twice as long each time.
const VAIN_PAUSE: Duration = Duration::from_secs(1);
/// How long at most.
const LONGEST_VAIN_PAUSE: Duration = Duration::from_hours(1);

/// How long the status of an OOM kill is there for others to see before its pod is evicted: clients
/// that poll would miss it.
const OOM_KILL_SHOWS: Duration = Duration::from_secs(1);

/// What is remembered, by the pods' unique identifiers.
#[derive(Debug, Clone, Default)]
pub struct RolloutState {
    in_flight: HashMap<String, InFlight>,
    backoffs: HashMap<String, Backoff>,
    /// Since when pods are seen resizing.
    resizing_since: HashMap<String, Duration>,
    /// What was recommended when a pod's node could not hold it.
    infeasible: HashMap<String, Arc<Recommendation>>,
    /// The same for the pods of a VPA object on any node that has as much.
    infeasible_by_capacity: HashMap<(ObjectKey, NodeCapacity), Arc<Recommendation>>,
    /// Resizes that the API server refused.
    refused: HashMap<String, (Patch, Duration)>,
    /// When pods were first seen; of all that are there and not on their way out.
    first_seen: HashMap<String, Duration>,
    /// The end of each pod's last OOM kill, and when its status was first seen.
    oom_kills: HashMap<String, (Timestamp, Duration)>,
    /// The end of the last OOM kill of each pod that was recorded in events.
    recorded_oom_kills: HashMap<String, Timestamp>,
    /// The evictions on behalf of VPA objects.
    evictions: HashMap<ObjectKey, EvictionSeries>,
    /// What was found out of maintenance windows.
    pub(super) windows: WindowCache,
    /// What changed a short time ago.
    pub(super) settling: Settling,
    /// The sizes of groups when they were last known.
    pub(super) group_sizes: GroupSizes,
    /// The objects at the last pass.
    pub(super) change_tracker: ClusterChangeTracker,
    /// The decisions that hold until something changes. None where everything is to be decided
    /// about.
    pub(super) decisions: Option<DecisionCache>,
}

/// Evictions on behalf of one VPA object for one recommendation. Pods that are new since they began
/// were made while it stood.
#[derive(Debug, Clone)]
struct EvictionSeries {
    recommendation: Arc<Recommendation>,
    since: Duration,
    last: Duration,
    /// How often pods came back as they were.
    ineffective: u32,
}

impl EvictionSeries {
    /// Until when pods that came back as they were are left alone.
    fn until(&self) -> Duration {
        let back_off = VAIN_PAUSE
            .saturating_mul(1 << self.ineffective.min(12))
            .min(LONGEST_VAIN_PAUSE);
        self.last.saturating_add(back_off)
    }

    /// Whether the pause has been over for so long that the next eviction begins a new series.
    fn is_over(&self, now: ClockReading) -> bool {
        self.until().saturating_add(LONGEST_VAIN_PAUSE) <= now.monotonic
    }
}

/// An act that the view does not show yet.
#[derive(Debug, Clone)]
struct InFlight {
    pod: ObjectKey,
    disruption: Disruption,
    stage: Stage,
    since: Duration,
    /// The end of an earlier attempt with an unknown outcome: it may have happened, even if this
    /// one is refused.
    unknown_since: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Begun,
    Unknown,
    Accepted { generation: Option<i64> },
}

#[derive(Debug, Clone, Copy)]
struct Backoff {
    until: Duration,
    failures: u32,
}

/// What is known of an act on one pod that the view does not show yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PendingAction {
    /// What the workload loses by it.
    pub(super) disruption: Disruption,
    /// Whether it may be tried again: nobody knows whether it happened.
    pub(super) may_retry: bool,
}

impl RolloutState {
    /// Has the next pass decide about everything, whether it changed or not.
    pub fn forget_decisions(&mut self) {
        self.decisions = None;
    }

    /// An act is about to be tried. From now on it counts.
    pub fn begin(&mut self, action: &Action, now: ClockReading) {
        let unknown_since = self
            .in_flight
            .get(&action.pod_uid)
            .and_then(InFlight::unknown_since);
        let (pod, disruption) = (action.pod.clone(), action.disruption);
        let in_flight = InFlight {
            pod,
            disruption,
            stage: Stage::Begun,
            since: now.monotonic,
            unknown_since,
        };
        self.in_flight.insert(action.pod_uid.clone(), in_flight);
        if action.kind == ActionKind::Evict {
            self.record_eviction(action, now);
        }
    }

    /// Has the next pass decide about what an act is about.
    fn mark(&mut self, action: &Action) {
        if let Some(decisions) = &mut self.decisions {
            decisions.index.mark_pod(&action.pod);
            decisions
                .index
                .mark_vpa(&action.vpa.namespace, &action.vpa.name);
        }
    }

    /// Returns the OOM kill that an act answers, for events. Each kill is returned once, however
    /// often its pod is tried.
    pub fn unrecorded_oom_kill<'a>(&mut self, action: &'a Action) -> Option<&'a QuickOomKill> {
        let kill = action.oom_kill.as_ref()?;
        let recorded = self
            .recorded_oom_kills
            .insert(action.pod_uid.clone(), kill.ended_at);
        (recorded != Some(kill.ended_at)).then_some(kill)
    }

    fn record_eviction(&mut self, action: &Action, now: ClockReading) {
        let is_ineffective = self
            .series_of_replacement(&action.vpa, &action.pod_uid, &action.recommendation)
            .is_some();
        let known = self
            .evictions
            .get_mut(&action.vpa)
            .filter(|known| !known.is_over(now));
        match known {
            Some(known) if same_targets(&known.recommendation, &action.recommendation) => {
                // Those that go together count once.
                known.ineffective = known
                    .ineffective
                    .saturating_add(u32::from(is_ineffective && known.until() <= now.monotonic));
                known.last = now.monotonic;
            }
            known => {
                // Another recommendation is tried at once. A pause that it cut short goes on with
                // the next one.
                let ineffective = known
                    .filter(|known| known.until() > now.monotonic)
                    .map_or(0, |known| known.ineffective);
                let recommendation = Arc::clone(&action.recommendation);
                let evictions = EvictionSeries {
                    recommendation,
                    since: now.monotonic,
                    last: now.monotonic,
                    ineffective,
                };
                self.evictions.insert(action.vpa.clone(), evictions);
            }
        }
    }

    /// The evictions for this recommendation, if the pod is new since they began.
    fn series_of_replacement(
        &self,
        vpa: &ObjectKey,
        uid: &str,
        recommendation: &Recommendation,
    ) -> Option<&EvictionSeries> {
        let known = self
            .evictions
            .get(vpa)
            .filter(|known| same_targets(&known.recommendation, recommendation))?;
        self.first_seen
            .get(uid)
            .is_some_and(|seen| *seen > known.since)
            .then_some(known)
    }

    /// The rest of the pause before another eviction of a pod that was made while the same was
    /// recommended. It would change nothing where the webhook does not size new pods.
    pub(super) fn ineffective_pause(
        &self,
        vpa: &ObjectKey,
        uid: &str,
        recommendation: &Recommendation,
        now: ClockReading,
    ) -> Option<Duration> {
        let left = self
            .series_of_replacement(vpa, uid, recommendation)?
            .until()
            .checked_sub(now.monotonic)?;
        (!left.is_zero()).then_some(left)
    }

    /// What came of an act.
    pub fn end(&mut self, action: &Action, outcome: &ActionOutcome, now: ClockReading) {
        self.mark(action);
        let uid = &action.pod_uid;
        match outcome {
            ActionOutcome::Accepted { generation } => {
                self.backoffs.remove(uid);
                self.set_stage(
                    uid,
                    Stage::Accepted {
                        generation: *generation,
                    },
                    now,
                );
            }
            ActionOutcome::PodGone => {
                self.set_stage(uid, Stage::Accepted { generation: None }, now);
            }
            ActionOutcome::Unknown => {
                self.back_off(uid, None, now);
                self.set_stage(uid, Stage::Unknown, now);
            }
            ActionOutcome::TooManyRequests { retry_after } => {
                self.back_off(uid, *retry_after, now);
                self.retract(uid);
            }
            ActionOutcome::Infeasible | ActionOutcome::Rejected => {
                self.retract(uid);
                match &action.kind {
                    ActionKind::Evict => self.back_off(uid, None, now),
                    ActionKind::Resize { patch, attempt, .. } => {
                        if self.knows_pod(uid) {
                            self.refused
                                .insert(uid.clone(), (patch.clone(), now.monotonic));
                        }
                        if *outcome == ActionOutcome::Infeasible {
                            self.record_infeasible(&action.vpa, uid, attempt);
                        }
                    }
                }
            }
        }
    }

    /// A pod's node can never hold what is recommended. Returns whether that was not known.
    pub(super) fn record_infeasible(
        &mut self,
        vpa: &ObjectKey,
        uid: &str,
        attempt: &ResizeAttempt,
    ) -> bool {
        let is_known = |known: Option<Arc<Recommendation>>| {
            known.is_some_and(|known| known == attempt.recommendation)
        };
        let mut is_new = false;
        if self.knows_pod(uid) {
            is_new = !is_known(
                self.infeasible
                    .insert(uid.to_owned(), Arc::clone(&attempt.recommendation)),
            );
        }
        if let Some(node_capacity) = attempt.node_capacity {
            let key = (vpa.clone(), node_capacity);
            is_new |= !is_known(
                self.infeasible_by_capacity
                    .insert(key, Arc::clone(&attempt.recommendation)),
            );
        }
        is_new
    }

    /// Whether a recommendation is known to be infeasible for a pod: nothing in it is lower than in
    /// the one that was.
    pub(super) fn is_infeasible(&self, uid: &str, recommendation: &Recommendation) -> bool {
        self.infeasible
            .get(uid)
            .is_some_and(|known| !is_any_lower(recommendation, known))
    }

    /// The same for any pod of a VPA object on nodes of this shape.
    pub(super) fn is_infeasible_for_capacity(
        &self,
        vpa: &ObjectKey,
        node_capacity: NodeCapacity,
        recommendation: &Recommendation,
    ) -> bool {
        let known = self
            .infeasible_by_capacity
            .get(&(vpa.clone(), node_capacity));
        known.is_some_and(|known| !is_any_lower(recommendation, known))
    }

    /// How long ago the API server refused this resize.
    pub(super) fn refused_ago(
        &self,
        uid: &str,
        resize: &Patch,
        now: ClockReading,
    ) -> Option<Duration> {
        let (refused, at) = self.refused.get(uid)?;
        (refused == resize).then(|| now.monotonic.saturating_sub(*at))
    }

    /// For how long a pod has been seen resizing.
    pub(super) fn resizing_for(&self, uid: &str, now: ClockReading) -> Duration {
        self.resizing_since
            .get(uid)
            .map_or(Duration::ZERO, |since| now.monotonic.saturating_sub(*since))
    }

    /// Forgets what is about VPA objects that are gone.
    pub(super) fn forget_vpas(&mut self, vpas: &[Change<Autoscaler>]) {
        for gone in vpas
            .iter()
            .filter(|change| change.new.is_none())
            .filter_map(|change| change.old.as_ref())
        {
            self.infeasible_by_capacity
                .retain(|(vpa, _), _| *vpa != gone.key);
            self.evictions.remove(&gone.key);
        }
    }

    fn set_stage(&mut self, uid: &str, stage: Stage, now: ClockReading) {
        if let Some(in_flight) = self.in_flight.get_mut(uid) {
            (in_flight.stage, in_flight.since) = (stage, now.monotonic);
        }
    }

    /// A refusal takes back what was begun, but not an attempt before it that may have happened.
    fn retract(&mut self, uid: &str) {
        let Some(mut in_flight) = self.in_flight.remove(uid) else {
            return;
        };
        if let Some(since) = in_flight.unknown_since {
            (in_flight.stage, in_flight.since) = (Stage::Unknown, since);
            self.in_flight.insert(uid.to_owned(), in_flight);
        }
    }

    /// Whether the last pass saw this pod. Nothing is noted about one that is gone.
    fn knows_pod(&self, uid: &str) -> bool {
        self.first_seen.contains_key(uid)
    }

    fn back_off(&mut self, uid: &str, at_least: Option<Duration>, now: ClockReading) {
        if !self.knows_pod(uid) {
            return;
        }
        let failures = self
            .backoffs
            .get(uid)
            .map_or(0, |back_off| back_off.failures);
        let back_off = FIRST_PAUSE
            .saturating_mul(1 << failures.min(10))
            .min(LONGEST_PAUSE)
            .max(at_least.unwrap_or_default().min(LONGEST_ASKED));
        let until = now.monotonic.saturating_add(back_off);
        self.backoffs.insert(
            uid.to_owned(),
            Backoff {
                until,
                failures: failures.saturating_add(1),
            },
        );
    }

    /// Takes over what changed pods show, and forgets what is about pods that are gone or on their
    /// way out.
    pub(super) fn observe(&mut self, pods: &[Change<Pod>], view: &View, now: ClockReading) {
        for Change { old, new } in pods {
            let new = new.as_ref().and_then(|pod| Some((pod, live(pod)?)));
            if let Some(gone) = old
                .as_ref()
                .filter(|old| new.is_none_or(|(new, _)| new.uid != old.uid))
            {
                self.forget(&gone.uid);
            }
            let Some((pod, running)) = new else { continue };
            self.first_seen
                .entry(pod.uid.clone())
                .or_insert(now.monotonic);
            if let Some(at) = last_oom_kill(pod) {
                let known = self
                    .oom_kills
                    .entry(pod.uid.clone())
                    .or_insert((at, now.monotonic));
                if known.0 != at {
                    *known = (at, now.monotonic);
                }
            } else {
                self.oom_kills.remove(&pod.uid);
            }
            if ResizeStatus::of(running) == ResizeStatus::NotResizing {
                self.resizing_since.remove(&pod.uid);
            } else {
                self.resizing_since
                    .entry(pod.uid.clone())
                    .or_insert(now.monotonic);
            }
        }
        let decisions = &mut self.decisions;
        self.in_flight.retain(|uid, in_flight| {
            // As long as it lasts, time alone may change what is decided.
            if let Some(decisions) = decisions {
                decisions.index.mark_pod(&in_flight.pod);
            }
            let pod = view.pods.get(&in_flight.pod).filter(|pod| pod.uid == *uid);
            pod.and_then(|pod| live(pod))
                .is_some_and(|running| !in_flight.is_over(running, now))
        });
    }

    fn forget(&mut self, uid: &str) {
        self.in_flight.remove(uid);
        self.backoffs.remove(uid);
        self.resizing_since.remove(uid);
        self.infeasible.remove(uid);
        self.refused.remove(uid);
        self.first_seen.remove(uid);
        self.oom_kills.remove(uid);
        self.recorded_oom_kills.remove(uid);
    }

    /// Forgets what was noted about VPA objects after they were gone.
    pub(super) fn forget_missing_vpas(&mut self, view: &View) {
        self.infeasible_by_capacity
            .retain(|(vpa, _), _| view.autoscalers.get(vpa).is_some());
        self.evictions
            .retain(|vpa, _| view.autoscalers.get(vpa).is_some());
    }

    /// How long the status of a pod's last OOM kill is still to be there for others to see.
    pub(super) fn oom_kill_exposure_left(&self, uid: &str, now: ClockReading) -> Option<Duration> {
        let (_, seen) = self.oom_kills.get(uid)?;
        let left = seen
            .saturating_add(OOM_KILL_SHOWS)
            .checked_sub(now.monotonic)?;
        (!left.is_zero()).then_some(left)
    }

    /// What is under way for a pod.
    pub(super) fn pending(&self, uid: &str) -> Option<PendingAction> {
        let in_flight = self.in_flight.get(uid)?;
        Some(PendingAction {
            disruption: in_flight.disruption,
            may_retry: matches!(in_flight.stage, Stage::Unknown),
        })
    }

    /// What a pod's workload loses by what is under way for it.
    pub fn pending_disruption(&self, uid: &str) -> Option<Disruption> {
        self.pending(uid).map(|pending| pending.disruption)
    }

    /// How long a pod is still left alone after a refusal.
    pub(super) fn backoff_left(&self, uid: &str, now: ClockReading) -> Option<Duration> {
        let left = self.backoffs.get(uid)?.until.checked_sub(now.monotonic)?;
        (!left.is_zero()).then_some(left)
    }
}

impl InFlight {
    fn unknown_since(&self) -> Option<Duration> {
        if matches!(self.stage, Stage::Unknown) {
            Some(self.since)
        } else {
            self.unknown_since
        }
    }

    /// Whether the view shows what came of it, or nothing will come of it any more.
    fn is_over(&self, running: &Running, now: ClockReading) -> bool {
        let waited = now.monotonic.saturating_sub(self.since);
        match (self.stage, self.disruption) {
            (Stage::Unknown, _) => waited >= UNKNOWN_SETTLES,
            // An eviction is over when the pod is gone.
            (Stage::Begun, _) | (Stage::Accepted { .. }, Disruption::Eviction) => false,
            (
                Stage::Accepted {
                    generation: Some(generation),
                },
                _,
            ) => running.generation.is_some_and(|seen| seen >= generation),
            (Stage::Accepted { generation: None }, _) => waited >= RESIZE_SETTLES,
        }
    }
}

/// What a pod says while it runs, if it is not on its way out.
fn live(pod: &Pod) -> Option<&Running> {
    pod.running
        .as_deref()
        .filter(|running| !running.is_terminating)
}

/// The end of the pod's last OOM kill.
fn last_oom_kill(pod: &Pod) -> Option<Timestamp> {
    pod.containers
        .iter()
        .filter_map(priority::last_oom_kill)
        .filter_map(|killed| killed.finished_at)
        .max()
}

/// Whether pods would get the same. Bounds move with time, although nothing else is recommended.
fn same_targets(one: &Recommendation, other: &Recommendation) -> bool {
    let is_same = |(one, other): (&ContainerRecommendation, &ContainerRecommendation)| {
        one.container_name == other.container_name && one.target == other.target
    };
    one.containers.len() == other.containers.len()
        && one.containers.iter().zip(&other.containers).all(is_same)
}

/// Whether any target is lower than it was.
pub(super) fn is_any_lower(recommendation: &Recommendation, before: &Recommendation) -> bool {
    recommendation.containers.iter().any(|container| {
        let before = before
            .containers
            .iter()
            .find(|before| before.container_name == container.container_name);
        before.is_some_and(|before| {
            let mut targets = container.target.iter();
            targets.any(|(name, target)| {
                before
                    .target
                    .get(name)
                    .is_some_and(|before| target < before)
            })
        })
    })
}
