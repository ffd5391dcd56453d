//! Whether the pods of each VPA object have the recommended requests, and if not, why not: the
//! condition `Applied` of the object.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::vpa::applied::{
    ANOTHER_UPDATER, OUTSIDE_WINDOW, RECOMMENDATION_FROZEN, STOPPED, WEBHOOK_UNAVAILABLE,
};
use jiff::Timestamp;
use view::ObjectKey;

use crate::action::{Action, ActionReason};
use crate::limits::global_pause::PauseReason;
use crate::limits::vpa_pause::VpaPauseReason;
use crate::plan::{AllowedUpdates, Plan};
use crate::skip::SkipReason;

/// Reason of `Applied` of a VPA: no pod needs other requests.
pub const APPLIED: &str = "Applied";
/// Reason of `Applied` of a VPA: pods get other requests now.
const UPDATING: &str = "Updating";
/// Reason of `Applied` of a VPA: there is no recommendation.
const NO_RECOMMENDATION: &str = "NoRecommendation";
/// Reason of `Applied` of a VPA: the mode is `InPlace`, and the updater lacks the feature gate.
const IN_PLACE_DISABLED: &str = "InPlaceDisabled";
/// Reason of `Applied` of a VPA: the maintenance window cannot be parsed.
const INVALID_WINDOW: &str = "InvalidWindow";
/// Reason of `Applied` of a VPA: pods got worse with the recommendation, so they have their former requests.
const ROLLED_BACK: &str = "RolledBack";
/// Reason of `Applied` of a VPA: pods have a startup boost.
const STARTUP_BOOST: &str = "StartupBoost";

/// The state of one VPA object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Reason in CamelCase; [`APPLIED`] if no pod needs other requests.
    pub reason: &'static str,
    /// Sentence with numbers of pods.
    pub message: String,
    /// The time of the pass from which on the reason has been the same.
    pub since: Timestamp,
    /// The numbers of the message; `None` while all updates are paused.
    numbers: Option<Numbers>,
}

/// Numbers that a state is made from. While they are the same, so is the state: a pass about
/// thousands of objects makes no text for those without a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Numbers {
    /// Reason and message of a pause of the object. Then nothing else counts.
    pause: Option<(&'static str, String)>,
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
            if !matches!(state.reason, APPLIED | NO_RECOMMENDATION) && state.reason != reason {
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
            let numbers = match paused.remove(key) {
                Some(pause) => Numbers {
                    pause: Some(pause),
                    ..Numbers::default()
                },
                None => Numbers {
                    pause: None,
                    pods: counts.controlled,
                    updating: actions.get(key).copied().unwrap_or(0) + counts.pending,
                    boosted: counts.boosted,
                    allowed: counts.allowed,
                    skips: skips.remove(key).unwrap_or_default(),
                },
            };
            let state = match old {
                Some(same) if same.numbers.as_ref() == Some(&numbers) => same,
                old => Application::after(old.as_ref(), numbers.state(), Some(numbers), now),
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
    fn state(&self) -> (&'static str, String) {
        let (pods, updating, boosted) = (self.pods, self.updating, self.boosted);
        if let Some(pause) = &self.pause {
            return pause.clone();
        }
        match self.allowed {
            AllowedUpdates::All => {}
            AllowedUpdates::NoRecommendation => {
                return (NO_RECOMMENDATION, "There is no recommendation".to_owned());
            }
            AllowedUpdates::InPlaceDisabled => {
                let message = "The mode is InPlace, and the updater does not resize in place";
                return (IN_PLACE_DISABLED, message.to_owned());
            }
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
        parts.extend(skips.map(|(reason, count)| format!("{count}: {}", reason.sentence())));
        let message = parts.join("; ");
        match first {
            _ if updating > 0 => (UPDATING, message),
            Some((reason, _)) => (reason.condition(), message),
            None if boosted > 0 => {
                let message = format!("{boosted} of {pods} pods have a startup boost");
                (STARTUP_BOOST, message)
            }
            None => (APPLIED, format!("No pod of {pods} needs other requests")),
        }
    }
}

fn pause_of(reason: &VpaPauseReason) -> (&'static str, String) {
    match reason {
        VpaPauseReason::RecommendationFrozen => (
            RECOMMENDATION_FROZEN,
            "The recommendation is frozen, see the condition SourceStale".to_owned(),
        ),
        // Without the time until it opens, which would change in each pass.
        VpaPauseReason::OutsideWindow { .. } => (
            OUTSIDE_WINDOW,
            "The maintenance window is closed".to_owned(),
        ),
        VpaPauseReason::RolledBack(sentence) => (ROLLED_BACK, sentence.clone()),
        VpaPauseReason::InvalidWindow(error) => (
            INVALID_WINDOW,
            format!("The maintenance window is invalid, and counts as closed: {error}"),
        ),
    }
}

/// Reason and message; `None` for a pause of seconds.
fn pause_sentence(reason: PauseReason) -> Option<(&'static str, &'static str)> {
    match reason {
        PauseReason::Stopped => Some((STOPPED, "The stop switch exists")),
        PauseReason::AnotherUpdater => Some((
            ANOTHER_UPDATER,
            "Another updater runs in the cluster, see `plimsoll check` or the log of this one",
        )),
        PauseReason::WebhookLeaseMissing | PauseReason::WebhookLeaseExpired => Some((
            WEBHOOK_UNAVAILABLE,
            "The webhook does not renew its Lease, so replaced pods would keep their requests",
        )),
        PauseReason::ViewStale => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::vpa_pause::PausedVpa;
    use crate::plan::PodCounts;
    use crate::skip::Skip;
    use sizing::Refusal;

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
