//! Whether the pods of each VPA object have the recommended requests, and if not, why not: the
//! condition `Applied` of the object.

mod reasons;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use sizing::Refusal;
use view::ObjectKey;

use crate::action::{Action, ActionReason, SkipReason};
use crate::limits::global_pause::PauseReason;
use crate::limits::vpa_pause::VpaPauseReason;
use crate::plan::{AllowedUpdates, Plan};

pub use reasons::APPLIED;

/// The state of one VPA object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Reason in CamelCase; [`APPLIED`] if no pod needs other requests.
    pub reason: &'static str,
    /// Sentence with numbers of pods.
    pub message: String,
    /// The time of the pass from which on the reason has been the same.
    pub since: Timestamp,
    /// The numbers of the message; `None` while updates are paused.
    numbers: Option<Numbers>,
}

/// Numbers that a state is made from. While they are the same, so is the state: a pass about
/// thousands of objects makes no text for those without a change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Numbers {
    pods: usize,
    updating: usize,
    boosted: usize,
    allowed: AllowedUpdates,
    skips: BTreeMap<SkipReason, usize>,
}

/// The states of all VPA objects with pods and a mode that updates them.
#[derive(Debug, Default)]
pub struct Applications(BTreeMap<ObjectKey, Arc<Application>>);

impl Applications {
    /// Takes in a pass at `now`. While all actions are paused, a pass decides nothing, so the
    /// objects with pods that need other requests get the pause as reason.
    pub fn update(&mut self, plan: &Plan, pause: Option<PauseReason>, now: Timestamp) {
        let Some(pause) = pause else {
            self.decided(plan, now);
            return;
        };
        let Some((reason, text)) = pause_sentence(pause) else {
            return;
        };
        for state in self.0.values_mut() {
            if !matches!(state.reason, APPLIED | reasons::NO_RECOMMENDATION)
                && state.reason != reason
            {
                *state = Application::after(Some(state), (reason, text.to_owned()), None, now);
            }
        }
    }

    fn decided(&mut self, plan: &Plan, now: Timestamp) {
        let mut before = std::mem::take(&mut self.0);
        let paused = plan.paused.iter();
        let mut paused: BTreeMap<_, _> = paused.map(|it| (&it.vpa, pause_of(&it.reason))).collect();
        let mut skips: BTreeMap<&ObjectKey, BTreeMap<SkipReason, usize>> = BTreeMap::new();
        for skip in &plan.skips {
            let of_vpa = skips.entry(&skip.vpa).or_default();
            *of_vpa.entry(skip.reason).or_default() += 1;
        }
        let mut actions: BTreeMap<&ObjectKey, usize> = BTreeMap::new();
        for action in plan.actions.iter().filter(|action| is_for_size(action)) {
            *actions.entry(&action.vpa).or_default() += 1;
        }
        for counts in &plan.pod_counts {
            let key = &counts.vpa;
            let old = before.remove(key);
            let state = if let Some(paused) = paused.remove(key) {
                match old {
                    Some(same) if (same.reason, &same.message) == (paused.0, &paused.1) => same,
                    old => Application::after(old.as_ref(), paused, None, now),
                }
            } else {
                let numbers = Numbers {
                    pods: counts.controlled,
                    updating: actions.get(key).copied().unwrap_or(0) + counts.pending,
                    boosted: counts.boosted,
                    allowed: counts.allowed,
                    skips: skips.remove(key).unwrap_or_default(),
                };
                match old {
                    Some(same) if same.numbers.as_ref() == Some(&numbers) => same,
                    old => Application::after(old.as_ref(), numbers.state(), Some(numbers), now),
                }
            };
            self.0.insert(key.clone(), state);
        }
    }

    /// The states, by VPA object. One that has not changed is the same as before.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Application>)> {
        self.0.iter()
    }
}

impl Application {
    /// A state with this reason and message. The time is that of the old one if it has the reason.
    fn after(
        old: Option<&Arc<Self>>,
        (reason, message): (&'static str, String),
        numbers: Option<Numbers>,
        now: Timestamp,
    ) -> Arc<Self> {
        let same = old.filter(|old| old.reason == reason);
        Arc::new(Self {
            reason,
            message,
            since: same.map_or(now, |old| old.since),
            numbers,
        })
    }
}

/// Whether the action gives its pod another size, and is not for other pods.
fn is_for_size(action: &Action) -> bool {
    action.relocation.is_none() && action.reason != ActionReason::Preemption
}

impl Numbers {
    /// Reason and message.
    fn state(&self) -> (&'static str, String) {
        let (pods, updating, boosted) = (self.pods, self.updating, self.boosted);
        let disabled = match self.allowed {
            AllowedUpdates::All => None,
            AllowedUpdates::NoRecommendation => {
                Some((reasons::NO_RECOMMENDATION, "There is no recommendation"))
            }
            AllowedUpdates::InPlaceDisabled => {
                let message = "The mode is InPlace, and the updater does not resize in place";
                Some((reasons::IN_PLACE_DISABLED, message))
            }
        };
        if let Some((reason, message)) = disabled {
            return (reason, message.to_owned());
        }
        let skipped: usize = self.skips.values().sum();
        let need = (updating + skipped).min(pods);
        // The most frequent reason, and the first one of equally frequent ones.
        let first = self.skips.iter().rev().max_by_key(|(_, count)| **count);
        let mut parts = vec![format!("{need} of {pods} pods need other requests")];
        if updating > 0 {
            parts.push(format!("{updating}: updated now"));
        }
        let skips = self.skips.iter();
        parts.extend(skips.map(|(reason, count)| format!("{count}: {}", text_of(*reason))));
        let message = parts.join("; ");
        match first {
            _ if updating > 0 => (reasons::UPDATING, message),
            Some((reason, _)) => (reason_of(*reason), message),
            None if boosted > 0 => {
                let message = format!("{boosted} of {pods} pods have a startup boost");
                (reasons::STARTUP_BOOST, message)
            }
            None => (APPLIED, format!("No pod of {pods} needs other requests")),
        }
    }
}

fn pause_of(reason: &VpaPauseReason) -> (&'static str, String) {
    match reason {
        VpaPauseReason::RecommendationFrozen => (
            reasons::RECOMMENDATION_FROZEN,
            "The recommendation is frozen, see the condition SourceStale".to_owned(),
        ),
        // Without the time until it opens, which would change in each pass.
        VpaPauseReason::OutsideWindow { .. } => (
            reasons::OUTSIDE_WINDOW,
            "The maintenance window is closed".to_owned(),
        ),
        VpaPauseReason::InvalidWindow(error) => (
            reasons::INVALID_WINDOW,
            format!("The maintenance window is invalid, and counts as closed: {error}"),
        ),
    }
}

/// Reason and message; `None` for a pause of seconds.
fn pause_sentence(reason: PauseReason) -> Option<(&'static str, &'static str)> {
    match reason {
        PauseReason::Stopped => Some((reasons::STOPPED, "The stop switch exists")),
        PauseReason::AnotherUpdater => Some((
            reasons::ANOTHER_UPDATER,
            "Another updater runs in the cluster, see `plimsoll check` or the log of this one",
        )),
        PauseReason::WebhookLeaseMissing | PauseReason::WebhookLeaseExpired => Some((
            reasons::WEBHOOK_UNAVAILABLE,
            "The webhook does not renew its Lease, so replaced pods would keep their requests",
        )),
        PauseReason::ViewStale => None,
    }
}

/// Reason of the condition.
fn reason_of(skip: SkipReason) -> &'static str {
    match skip {
        SkipReason::TooFewReplicas => reasons::TOO_FEW_REPLICAS,
        SkipReason::EvictionTolerance => reasons::EVICTION_TOLERANCE,
        SkipReason::DisruptionBudget => reasons::DISRUPTION_BUDGET,
        SkipReason::MultipleBudgets => reasons::MULTIPLE_DISRUPTION_BUDGETS,
        SkipReason::BackingOff => reasons::BACKING_OFF,
        SkipReason::RecentOomKill => reasons::RECENT_OOM_KILL,
        SkipReason::EvictionIneffective => reasons::EVICTION_INEFFECTIVE,
        SkipReason::WebhookNotCalled => reasons::WEBHOOK_NOT_CALLED,
        SkipReason::Paced => reasons::PACED,
        SkipReason::Settling => reasons::SETTLING,
        SkipReason::EvictionRequirements => reasons::EVICTION_REQUIREMENTS,
        SkipReason::KnownInfeasible => reasons::RESIZE_INFEASIBLE,
        SkipReason::ResizePending => reasons::RESIZE_PENDING,
        SkipReason::MemoryInUse => reasons::MEMORY_IN_USE,
        SkipReason::QosClass => reasons::QOS_CLASS,
        SkipReason::ResizeRejected => reasons::RESIZE_REJECTED,
        SkipReason::ResizeForbidden => reasons::RESIZE_FORBIDDEN,
        SkipReason::RecentlyReverted => reasons::RECENTLY_REVERTED,
        SkipReason::RollingUpdatePending => reasons::ROLLING_UPDATE_PENDING,
        SkipReason::RollingUpdateRefused => reasons::ROLLING_UPDATE_REFUSED,
        SkipReason::RollingUpdateIneffective => reasons::ROLLING_UPDATE_INEFFECTIVE,
        SkipReason::ContainerStopped => reasons::CONTAINER_STOPPED,
        SkipReason::OomKilledAtTarget => reasons::OOM_KILLED_AT_TARGET,
        SkipReason::Refused(Refusal::ContainerLimit) => reasons::LIMIT_TOO_LOW,
        SkipReason::Refused(Refusal::LimitRange | Refusal::LimitRangeOfPod) => reasons::LIMIT_RANGE,
        SkipReason::Refused(Refusal::PodResources) => reasons::POD_RESOURCES,
        SkipReason::InvalidReplacement => reasons::INVALID_REPLACEMENT,
    }
}

/// Part of a sentence after the number of pods.
fn text_of(skip: SkipReason) -> &'static str {
    match skip {
        SkipReason::TooFewReplicas => {
            "fewer live pods than minReplicas of the object or --min-replicas"
        }
        SkipReason::EvictionTolerance => "the eviction tolerance is used up by other pods",
        SkipReason::DisruptionBudget => "a PodDisruptionBudget allows no disruption",
        SkipReason::MultipleBudgets => "several PodDisruptionBudgets select the pod",
        SkipReason::BackingOff => "refused before, tried again later",
        SkipReason::RecentOomKill => "OOM killed less than a second ago",
        SkipReason::EvictionIneffective => "earlier evictions did not change the requests",
        SkipReason::WebhookNotCalled => {
            "the API server did not call the webhook for the last replacement, so evictions wait for 1 min, and longer each time up to 1 h"
        }
        SkipReason::Paced => "enough pods were restarted in this minute, see --eviction-pace",
        SkipReason::Settling => "the object or its constraints changed just now",
        SkipReason::EvictionRequirements => "the evictionRequirements do not hold",
        SkipReason::KnownInfeasible => "the node is too small",
        SkipReason::ResizePending => "the kubelet has not completed the resize yet",
        SkipReason::MemoryInUse => "the kubelet does not lower the memory limit below the usage",
        SkipReason::QosClass => "a resize would change the QoS class",
        SkipReason::ResizeRejected => "the API server rejected the resize",
        SkipReason::ResizeForbidden => "a quota, a policy or a missing right forbids the resize",
        SkipReason::RecentlyReverted => {
            "more memory was needed after a resize, so it is kept for a while"
        }
        SkipReason::RollingUpdatePending => {
            "a rolling update is under way, or was less than 10 min ago"
        }
        SkipReason::RollingUpdateRefused => "the Deployment gets no rolling update, see the events",
        SkipReason::RollingUpdateIneffective => {
            "the last rolling update did not change the requests"
        }
        SkipReason::ContainerStopped => {
            "a resize waits until the container runs, else it has no effect"
        }
        SkipReason::OomKilledAtTarget => {
            "OOM killed with the recommended memory: is maxAllowed or the quota too low?"
        }
        SkipReason::Refused(Refusal::ContainerLimit) => {
            "the webhook leaves the request as written: its limit stays below the recommendation"
        }
        SkipReason::Refused(Refusal::LimitRange) => {
            "the webhook leaves the request as written: a LimitRange would refuse the container"
        }
        SkipReason::Refused(Refusal::LimitRangeOfPod) => {
            "the webhook leaves the requests as written: a LimitRange would refuse the pod"
        }
        SkipReason::Refused(Refusal::PodResources) => {
            "the webhook leaves the requests as written: the pod as a whole may not have more"
        }
        SkipReason::InvalidReplacement => "the annotation plimsoll.dev/replacement is invalid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Skip;
    use crate::limits::vpa_pause::PausedVpa;
    use crate::plan::PodCounts;

    fn key() -> ObjectKey {
        ObjectKey::new("shop", "web")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn plan(controlled: usize, pending: usize, skips: &[SkipReason]) -> Plan {
        let skip = |reason: &SkipReason| {
            Arc::new(Skip {
                vpa: key(),
                pod: key(),
                reason: *reason,
            })
        };
        Plan {
            skips: skips.iter().map(skip).collect(),
            pod_counts: vec![Arc::new(PodCounts {
                controlled,
                pending,
                vpa: key(),
                ..PodCounts::default()
            })],
            ..Plan::default()
        }
    }

    fn found(states: &Applications) -> (&'static str, String, i64) {
        let (_, state) = states.iter().next().expect("a state");
        (state.reason, state.message.clone(), state.since.as_second())
    }

    fn check(plan: &Plan, reason: &'static str, message: &str) {
        let mut states = Applications::default();
        states.update(plan, None, at(1));
        assert_eq!(found(&states), (reason, message.to_owned(), 1));
    }

    #[test]
    fn the_most_frequent_reason_is_named_first_with_all_numbers() {
        check(
            &plan(3, 0, &[]),
            "Applied",
            "No pod of 3 needs other requests",
        );
        let skips = [
            SkipReason::BackingOff,
            SkipReason::DisruptionBudget,
            SkipReason::DisruptionBudget,
        ];
        check(
            &plan(5, 0, &skips),
            "DisruptionBudget",
            "3 of 5 pods need other requests; 2: a PodDisruptionBudget allows no disruption; \
             1: refused before, tried again later",
        );
        check(
            &plan(5, 1, &skips[1..2]),
            "Updating",
            "2 of 5 pods need other requests; 1: updated now; \
             1: a PodDisruptionBudget allows no disruption",
        );
    }

    #[test]
    fn a_refused_size_says_that_the_requests_stay_as_written() {
        check(
            &plan(3, 0, &[SkipReason::Refused(Refusal::PodResources)]),
            "PodResources",
            "1 of 3 pods need other requests; 1: the webhook leaves the requests as written: \
             the pod as a whole may not have more",
        );
    }

    #[test]
    fn objects_without_updates_say_so() {
        let with = |allowed| Plan {
            pod_counts: vec![Arc::new(PodCounts {
                allowed,
                vpa: key(),
                ..PodCounts::default()
            })],
            ..Plan::default()
        };
        let none = AllowedUpdates::NoRecommendation;
        check(
            &with(none),
            "NoRecommendation",
            "There is no recommendation",
        );
        let mut paused = plan(1, 0, &[]);
        paused.paused = vec![Arc::new(PausedVpa {
            vpa: key(),
            reason: VpaPauseReason::RecommendationFrozen,
        })];
        check(
            &paused,
            "RecommendationFrozen",
            "The recommendation is frozen, see the condition SourceStale",
        );
    }

    #[test]
    fn a_stop_is_the_reason_of_objects_whose_pods_need_other_requests() {
        let mut states = Applications::default();
        let nothing = Plan::default();
        states.update(&plan(2, 0, &[SkipReason::DisruptionBudget]), None, at(1));
        states.update(&nothing, Some(PauseReason::ViewStale), at(2));
        assert_eq!(found(&states).0, "DisruptionBudget");
        states.update(&nothing, Some(PauseReason::Stopped), at(3));
        states.update(&nothing, Some(PauseReason::Stopped), at(4));
        let stopped = "The stop switch exists".to_owned();
        assert_eq!(found(&states), ("Stopped", stopped, 3));
        states.update(&plan(2, 0, &[]), None, at(5));
        assert_eq!(found(&states).0, "Applied");
        states.update(&nothing, Some(PauseReason::Stopped), at(6));
        assert_eq!(found(&states).0, "Applied");
        states.update(&nothing, None, at(7));
        assert_eq!(states.iter().count(), 0);
    }
}
