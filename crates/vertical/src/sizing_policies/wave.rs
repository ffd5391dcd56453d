//! Waves of a policy through its workloads: one of each namespace is updated first, and three more for each that
//! has its recommended requests. They stop while recommendations are rolled back. Namespaces do not wait for each
//! other: one tenant does not delay another.
//!
//! `workloads that may be updated now = max(1, 3 * settled + over) - unsettled`

use std::collections::BTreeMap;

use api::rollback::{ROLLED_BACK, Rollback};
use api::sizing_policy::UPDATES_SINCE;
use api::vpa::applied::PAUSES;
use api::vpa::{APPLIED, UpdateMode, VerticalPodAutoscaler, VerticalPodAutoscalerCondition};
use jiff::{SignedDuration, Timestamp};
use view::{ObjectKey, Vpa};

/// Policies that select fewer workloads have no waves.
const MIN_WORKLOADS: usize = 10;
/// Workloads that may follow one.
const GROWTH: usize = 3;
/// The time for which no pod of a workload must need other requests.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// The time for which a workload counts that is not settled: it may lack something else.
const JUDGED_FOR: SignedDuration = SignedDuration::from_mins(30);
/// The time for which a rollback counts, as for the updater.
const ROLLED_BACK_FOR: SignedDuration = SignedDuration::from_hours(24);
/// The waves of a policy.
#[derive(Debug, Default)]
pub(super) struct Waves {
    selected: usize,
    by_namespace: BTreeMap<String, Wave>,
}

/// Numbers of the workloads of a policy in a namespace.
#[derive(Debug, Default)]
struct Wave {
    updated: usize,
    settled: usize,
    unsettled: usize,
    /// Workloads that had their turn and are not settled.
    over: usize,
    rolled_back: usize,
    first_rolled_back: Option<ObjectKey>,
    /// Workloads that are not updated yet.
    waiting: usize,
}

impl Waves {
    /// Counts a selected workload of a namespace, with the object that the policy made for it.
    pub(super) fn add(&mut self, namespace: &str, made: Option<&Vpa>, now: Timestamp) {
        self.selected += 1;
        let wave = self.by_namespace.entry(namespace.to_owned()).or_default();
        if let Some(vpa) = made.filter(|vpa| updates_pods(mode(&vpa.object))) {
            wave.add(vpa, now);
        }
    }

    /// Lets the object of a workload update pods if its turn has come. `made` is the one that is there. One that
    /// cannot be written has no turn until it can.
    pub(super) fn apply(
        &mut self,
        object: &mut VerticalPodAutoscaler,
        made: Option<&Vpa>,
        is_failing: bool,
        now: Timestamp,
    ) {
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let wave = self.by_namespace.entry(namespace).or_default();
        let is_off = self.selected < MIN_WORKLOADS && wave.rolled_back == 0;
        if is_off || !updates_pods(mode(object)) {
            return;
        }
        let mut since = format!("{now:.0}");
        // Also if someone else has switched it off: its turn is over.
        if let Some(earlier) = made.and_then(|vpa| annotation(&vpa.object, UPDATES_SINCE)) {
            since.clone_from(earlier);
        } else if made.is_some_and(|vpa| updates_pods(mode(&vpa.object))) {
            return;
        } else if is_failing || wave.allowed() == 0 {
            wave.waiting += 1;
            if let Some(update) = &mut object.spec.update_policy {
                let passive = made.map_or(UpdateMode::Off, |vpa| mode(&vpa.object));
                update.update_mode = Some(passive);
            }
            return;
        } else {
            wave.updated += 1;
            wave.unsettled += 1;
        }
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(UPDATES_SINCE.to_owned(), since);
    }

    /// The state of the waves in which workloads wait, and whether one is stopped.
    pub(super) fn report(&self) -> Option<(bool, String)> {
        let under_way = || self.by_namespace.values().filter(|wave| wave.waiting > 0);
        let sum = |number: fn(&Wave) -> usize| under_way().map(number).sum::<usize>();
        let (updated, waiting) = (sum(|wave| wave.updated), sum(|wave| wave.waiting));
        let of_all = updated + waiting;
        let message = format!("{updated} of {of_all} workloads updated, {waiting} waiting");
        let mut stopped = under_way().filter(|wave| wave.is_stopped());
        let first = stopped.find_map(|wave| wave.first_rolled_back.as_ref());
        let report = match first {
            Some(first) => (
                true,
                format!(
                    "{message}: the recommendation of VerticalPodAutoscaler {first} was rolled back"
                ),
            ),
            None => (false, message),
        };
        (waiting > 0).then_some(report)
    }
}

impl Wave {
    fn add(&mut self, vpa: &Vpa, now: Timestamp) {
        let is_within = |time: Timestamp, limit: SignedDuration| {
            (SignedDuration::ZERO..limit).contains(&now.duration_since(time))
        };
        let VerticalPodAutoscaler { status, .. } = &vpa.object;
        let mut conditions = status.iter().flat_map(|status| &status.conditions);
        let applied = conditions.find(|condition| condition.kind == APPLIED);
        // The turn of a workload whose pods are left alone has not begun.
        let is_paused = |it: &VerticalPodAutoscalerCondition| PAUSES.contains(&it.reason.as_str());
        let rollback = annotation(&vpa.object, ROLLED_BACK);
        let rollback = rollback.and_then(|text| serde_json::from_str::<Rollback>(text).ok());
        let turn = annotation(&vpa.object, UPDATES_SINCE).and_then(|text| text.parse().ok());
        self.updated += 1;
        if rollback.is_some_and(|it| is_within(it.at, ROLLED_BACK_FOR)) {
            self.rolled_back += 1;
            self.first_rolled_back
                .get_or_insert_with(|| vpa.key.clone());
        } else if applied.is_some_and(|it| is_settled(it, now)) {
            self.settled += 1;
        } else if applied.is_some_and(is_paused) || turn.is_some_and(|it| is_within(it, JUDGED_FOR))
        {
            self.unsettled += 1;
        } else {
            self.over += 1;
        }
    }

    fn allowed(&self) -> usize {
        if self.is_stopped() {
            return 0;
        }
        let all = (GROWTH * self.settled + self.over).max(1);
        all.saturating_sub(self.unsettled)
    }

    /// Whether a fifth of the updated workloads got worse.
    fn is_stopped(&self) -> bool {
        self.rolled_back > 0 && self.rolled_back * 5 >= self.updated
    }
}

fn is_settled(applied: &VerticalPodAutoscalerCondition, now: Timestamp) -> bool {
    let since = applied.last_transition_time.as_ref();
    applied.status == "True" && since.is_some_and(|it| now.duration_since(it.0) >= SETTLED_AFTER)
}

fn updates_pods(mode: UpdateMode) -> bool {
    !matches!(mode, UpdateMode::Off | UpdateMode::Initial)
}

fn mode(object: &VerticalPodAutoscaler) -> UpdateMode {
    let policy = object.spec.update_policy.as_ref();
    policy
        .and_then(|policy| policy.update_mode)
        .unwrap_or(UpdateMode::Recreate)
}

fn annotation<'a>(object: &'a VerticalPodAutoscaler, key: &str) -> Option<&'a String> {
    object.metadata.annotations.as_ref()?.get(key)
}
