//! `VerticalPodAutoscalerCheckpoint` objects: one per container of each VPA object, with upstream's
//! content (`pkg/recommender/checkpoint`).
//!
//! * `content`: the object, its patch and the form that sizing knows.
//! * `method_history`: history of a sizing method other than the VPA's, in an annotation.
//! * `stored_history`: history that was stored before this process measured anything, and so may be added to
//!   what it measures.
//! * `plan`: name of the object for a container, and what has to happen to it.
//! * `garbage`: checkpoints that are no longer needed.

pub mod content;
pub mod garbage;
pub mod method_history;
pub mod plan;
pub(crate) mod stored_history;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use view::{ObjectKey, interleave_namespaces};

use super::refresh::RefreshSchedule;
use plan::StoredCheckpoints;

/// The schedule of one term. `elapsed` is the time since its begin on the monotonic clock.
/// Due are objects without a checkpoint, whose recommendation changed, whose refresh is due, and that
/// could not be stored before.
#[derive(Debug)]
pub struct CheckpointSchedule {
    began: Timestamp,
    refresh: RefreshSchedule,
    due: BTreeSet<ObjectKey>,
    maintained: BTreeMap<ObjectKey, Maintained>,
}

/// Times of the maintenance of one VPA object.
#[derive(Debug, Clone, Copy)]
struct Maintained {
    last: Duration,
    /// Time at which its whole history was last known to be stored.
    stored: Option<Timestamp>,
}

impl CheckpointSchedule {
    /// A schedule that begins at `began`. The checkpoint of an unchanged recommendation is due once
    /// per `refresh_interval`.
    pub fn new(began: Timestamp, refresh_interval: Duration) -> Self {
        Self {
            began,
            refresh: RefreshSchedule::new(refresh_interval),
            due: BTreeSet::new(),
            maintained: BTreeMap::new(),
        }
    }

    pub fn enqueue(&mut self, objects: impl IntoIterator<Item = ObjectKey>) {
        self.due.extend(objects);
    }

    /// The objects that are due, of all that have checkpoints, in turns of one object per namespace, so
    /// that one namespace does not delay the others. Within each: first those not maintained in this
    /// term, least recently stored first, then the others, least recently maintained first.
    pub fn due(
        &mut self,
        vpas: Vec<ObjectKey>,
        stored: &BTreeMap<ObjectKey, StoredCheckpoints>,
        elapsed: Duration,
    ) -> Vec<ObjectKey> {
        let kept: BTreeSet<_> = vpas.iter().collect();
        self.maintained.retain(|key, _| kept.contains(key));
        self.due.retain(|key| kept.contains(key));
        self.refresh.retain(|key| kept.contains(key));
        let mut due = Vec::new();
        for key in vpas {
            let is_refreshed = self.refresh.is_due(&key, elapsed);
            if is_refreshed || !stored.contains_key(&key) || self.due.contains(&key) {
                self.due.insert(key.clone());
                due.push(key);
            }
        }
        due.sort_by_cached_key(|key| {
            let maintained = self.maintained.get(key).map(|maintained| maintained.last);
            (
                maintained,
                stored.get(key).map(|stored| stored.oldest),
                key.clone(),
            )
        });
        interleave_namespaces(due, |key| key)
    }

    /// Records the maintenance of an object. Unless all of it is stored, it stays due.
    pub fn record(&mut self, key: ObjectKey, is_stored: bool, elapsed: Duration, now: Timestamp) {
        let before = self.maintained.get(&key).and_then(|before| before.stored);
        let stored = is_stored.then_some(now).or(before);
        if is_stored {
            self.due.remove(&key);
        }
        let last = elapsed;
        self.maintained.insert(key, Maintained { last, stored });
    }

    /// Time since which some history may not be stored; `None` without any history.
    pub fn oldest(&self) -> Option<Timestamp> {
        let times = self.maintained.values();
        times.map(|it| it.stored.unwrap_or(self.began)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;

    const DAY: i64 = 24 * 60 * 60;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("shop", name)
    }

    #[test]
    fn namespaces_take_turns() {
        let mut schedule = CheckpointSchedule::new(at(0), seconds(600));
        let many = (0..1000).map(|number| ObjectKey::new("aaa", format!("{number:04}")));
        let others = ["one", "two"].map(|name| ObjectKey::new("zzz", name));
        let all: Vec<_> = many.chain(others.clone()).collect();
        let due = schedule.due(all, &BTreeMap::new(), seconds(1));
        assert_eq!([&due[1], &due[3]], [&others[0], &others[1]]);
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Checkpoints written at these seconds.
    fn stored(of: &[(&str, i64)]) -> BTreeMap<ObjectKey, StoredCheckpoints> {
        let stored = |second: i64| StoredCheckpoints {
            oldest: at(second),
            count: 1,
        };
        of.iter()
            .map(|(name, second)| (key(name), stored(*second)))
            .collect()
    }

    #[test]
    fn the_one_that_waited_longest_comes_first() {
        let mut schedule = CheckpointSchedule::new(at(0), Duration::ZERO);
        // A clock that was ahead wrote the first one.
        let stored = stored(&[
            ("early", 8 * DAY),
            ("late", 30),
            ("written-late", 30),
            ("written-early", 10),
        ]);
        for (name, second) in [("early", 10), ("late", 30)] {
            schedule.record(key(name), true, seconds(second), at(0));
        }
        let all = [
            "early",
            "late",
            "never-a",
            "never-b",
            "written-early",
            "written-late",
        ];
        let due = schedule.due(all.map(key).to_vec(), &stored, seconds(40));
        let names: Vec<_> = due.iter().map(|key| key.name.as_str()).collect();
        let new = ["never-a", "never-b", "written-early", "written-late"];
        assert_eq!(names, [&new[..], &["early", "late"]].concat());
    }

    #[test]
    fn an_object_is_due_without_a_checkpoint_after_a_change_and_once_per_interval() {
        let mut schedule = CheckpointSchedule::new(at(0), seconds(300));
        let due = |schedule: &mut CheckpointSchedule, of: &[(&str, i64)], elapsed| {
            let due = schedule.due(vec![key("web")], &stored(of), seconds(elapsed));
            due.len()
        };
        assert_eq!(due(&mut schedule, &[], 0), 1, "it has no checkpoint");
        schedule.record(key("web"), false, seconds(0), at(0));
        let is_stored = [("web", 0)];
        assert_eq!(due(&mut schedule, &is_stored, 0), 1, "not all was stored");
        schedule.record(key("web"), true, seconds(0), at(0));
        assert_eq!(due(&mut schedule, &is_stored, 0), 0);
        schedule.enqueue([key("web"), key("gone")]);
        assert_eq!(due(&mut schedule, &is_stored, 0), 1);
        schedule.record(key("web"), true, seconds(0), at(0));
        let refreshed = (1..=10).map(|round| due(&mut schedule, &is_stored, 60 * round));
        assert!(refreshed.sum::<usize>() >= 1);
    }

    #[test]
    fn a_look_that_stores_nothing_counts_for_the_order_and_not_for_the_age() {
        let mut schedule = CheckpointSchedule::new(at(0), Duration::ZERO);
        for (second, is_stored, expected) in [(10, false, 0), (20, true, 20), (30, false, 20)] {
            schedule.record(key("web"), is_stored, seconds(0), at(second));
            assert_eq!(schedule.oldest(), Some(at(expected)));
        }
        schedule.record(key("shop"), true, seconds(0), at(40));
        schedule.due(vec![key("shop")], &BTreeMap::new(), seconds(0));
        assert_eq!(
            schedule.oldest(),
            Some(at(40)),
            "an object that is gone has no age"
        );
    }
}
