//! What has to be remembered between decisions: what is on its way and not seen yet, and what was refused.
//!
//! All of it is about pods that the view shows; what is about others is forgotten. A restart forgets everything: then what the
//! cluster shows counts, which holds evictions once the list of pods is read anew.

use std::collections::HashMap;
use std::time::Duration;

use cluster::{Pod, Running};

use super::act::{Act, Outcome};
use super::group::Disruption;
use super::moment::Moment;

/// After how long without an answer an act is taken not to have happened, when the pod is still there.
const UNKNOWN_SETTLES: Duration = Duration::from_mins(2);
/// How long an accepted resize counts when the pod carries no generation to know it by.
const RESIZE_SETTLES: Duration = Duration::from_mins(1);
/// The first pause after a refusal; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// What is remembered, by the pods' unique identifiers.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    flights: HashMap<String, Flight>,
    pauses: HashMap<String, Pause>,
}

/// An act that the view does not show yet.
#[derive(Debug, Clone, Copy)]
struct Flight {
    disruption: Disruption,
    stage: Stage,
    since: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Begun,
    Unknown,
    Accepted { generation: Option<i64> },
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Duration,
    refusals: u32,
}

/// What is known of an act on one pod that the view does not show yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// What the workload loses by it.
    pub disruption: Disruption,
    /// Whether it may be tried again: nobody knows whether it happened.
    pub may_retry: bool,
}

impl Memory {
    /// An act is about to be tried. From now on it counts.
    pub fn begin(&mut self, act: &Act, now: Moment) {
        let flight = Flight { disruption: act.disruption, stage: Stage::Begun, since: now.steady };
        self.flights.insert(act.pod_uid.clone(), flight);
    }

    /// What came of an act.
    pub fn end(&mut self, act: &Act, outcome: &Outcome, now: Moment) {
        let uid = &act.pod_uid;
        match outcome {
            Outcome::Accepted { generation } => {
                self.pauses.remove(uid);
                self.move_on(uid, Stage::Accepted { generation: *generation }, now);
            }
            Outcome::Gone => {
                self.move_on(uid, Stage::Accepted { generation: None }, now);
            }
            Outcome::Unknown => {
                self.pause(uid, None, now);
                self.move_on(uid, Stage::Unknown, now);
            }
            Outcome::TooMany { retry_after } => {
                self.pause(uid, *retry_after, now);
                self.flights.remove(uid);
            }
            Outcome::Infeasible | Outcome::Rejected => {
                self.pause(uid, None, now);
                self.flights.remove(uid);
            }
        }
    }

    fn move_on(&mut self, uid: &str, stage: Stage, now: Moment) {
        if let Some(flight) = self.flights.get_mut(uid) {
            (flight.stage, flight.since) = (stage, now.steady);
        }
    }

    fn pause(&mut self, uid: &str, at_least: Option<Duration>, now: Moment) {
        let refusals = self.pauses.get(uid).map_or(0, |pause| pause.refusals);
        let pause =
            FIRST_PAUSE.saturating_mul(1 << refusals.min(10)).min(LONGEST_PAUSE).max(at_least.unwrap_or_default());
        let until = now.steady.saturating_add(pause);
        self.pauses.insert(uid.to_owned(), Pause { until, refusals: refusals.saturating_add(1) });
    }

    /// Forgets what the pods show, and what is about pods that are not there. `live` are those that are not on their way out.
    pub fn observe<'a>(&mut self, live: impl Iterator<Item = (&'a Pod, &'a Running)>, now: Moment) {
        if self.flights.is_empty() && self.pauses.is_empty() {
            return;
        }
        let (mut flights, mut pauses) = (HashMap::new(), HashMap::new());
        for (pod, running) in live {
            if let Some((uid, flight)) = self.flights.remove_entry(&pod.uid)
                && !flight.is_over(running, now)
            {
                flights.insert(uid, flight);
            }
            if let Some((uid, pause)) = self.pauses.remove_entry(&pod.uid) {
                pauses.insert(uid, pause);
            }
        }
        (self.flights, self.pauses) = (flights, pauses);
    }

    /// What is under way for a pod.
    pub fn pending(&self, uid: &str) -> Option<Pending> {
        let flight = self.flights.get(uid)?;
        Some(Pending { disruption: flight.disruption, may_retry: matches!(flight.stage, Stage::Unknown) })
    }

    /// How long a pod is still left alone after a refusal.
    pub fn pause_left(&self, uid: &str, now: Moment) -> Option<Duration> {
        let left = self.pauses.get(uid)?.until.checked_sub(now.steady)?;
        (!left.is_zero()).then_some(left)
    }
}

impl Flight {
    /// Whether the view shows what came of it, or nothing will come of it any more.
    fn is_over(&self, running: &Running, now: Moment) -> bool {
        let waited = now.steady.saturating_sub(self.since);
        match (self.stage, self.disruption) {
            (Stage::Unknown, _) => waited >= UNKNOWN_SETTLES,
            // An eviction is over when the pod is gone.
            (Stage::Begun, _) | (Stage::Accepted { .. }, Disruption::Eviction) => false,
            (Stage::Accepted { generation: Some(generation) }, _) => {
                running.generation.is_some_and(|seen| seen >= generation)
            }
            (Stage::Accepted { generation: None }, _) => waited >= RESIZE_SETTLES,
        }
    }
}
