//! Order in which statuses are written: urgent ones first, namespaces in turns, only the latest of each
//! object, and never two of one object at once, so that an older status never replaces a newer one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use view::ObjectKey;

use crate::recommender_state::Decision;
use crate::refresh::{RefreshSchedule, StatusChange};

/// Priority of a write. Each priority has workers of its own, so neither waits for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Written first.
    Urgent,
    /// One of many.
    Ordinary,
}

/// Statuses that are pending or being written.
#[derive(Debug)]
pub struct WriteQueue {
    /// Maximum number of concurrent writes of each priority.
    workers: usize,
    refresh: RefreshSchedule,
    waiting: BTreeMap<ObjectKey, Waiting>,
    order: BTreeMap<Position, ObjectKey>,
    arrivals: u64,
    /// The latest turn that was taken.
    turn: u64,
    /// The last turn given to each namespace since nothing was pending.
    turns: BTreeMap<String, u64>,
    writing: BTreeMap<ObjectKey, Priority>,
}

/// Priority, turn and arrival. The objects of a namespace have different turns, so that many of one
/// delay no other.
type Position = (Priority, u64, u64);

#[derive(Debug)]
struct Waiting {
    decision: Arc<Decision>,
    position: Position,
}

impl WriteQueue {
    /// At most `workers` objects of each priority are written at the same time. Changes of bounds
    /// alone are written once per `refresh_interval`.
    pub fn new(workers: usize, refresh_interval: Duration) -> Self {
        Self {
            workers,
            refresh: RefreshSchedule::new(refresh_interval),
            waiting: BTreeMap::new(),
            order: BTreeMap::new(),
            arrivals: 0,
            turn: 0,
            turns: BTreeMap::new(),
            writing: BTreeMap::new(),
        }
    }

    /// Adds a decision, newer than all before, `elapsed` after any fixed moment. It replaces the
    /// pending one of the same object and keeps the better position. One without a change cancels
    /// the pending one.
    pub fn put(&mut self, decision: Arc<Decision>, priority: Priority, elapsed: Duration) {
        let key = decision.vpa.key.clone();
        let old = self.waiting.get(&key).map(|waiting| waiting.position);
        match decision.change {
            StatusChange::None => return self.withdraw(&key),
            StatusChange::Bounds if old.is_none() && !self.refresh.is_due(&key, elapsed) => return,
            StatusChange::Bounds | StatusChange::Decision => {}
        }
        let position = if let Some((before, turn, arrival)) = old {
            self.withdraw(&key);
            (priority.min(before), turn, arrival)
        } else {
            self.arrivals += 1;
            let last = self.turns.entry(key.namespace.clone()).or_default();
            *last = self.turn.max(*last + 1);
            (priority, *last, self.arrivals)
        };
        self.order.insert(position, key.clone());
        self.waiting.insert(key, Waiting { decision, position });
    }

    pub fn retain(&mut self, is_kept: impl Fn(&ObjectKey) -> bool) {
        self.refresh.retain(is_kept);
    }

    fn withdraw(&mut self, key: &ObjectKey) {
        if let Some(old) = self.waiting.remove(key) {
            self.order.remove(&old.position);
        }
    }

    /// Takes the next status to write, if any. It counts as being written until `done`.
    pub fn take(&mut self) -> Option<(Arc<Decision>, Priority)> {
        let position = [Priority::Urgent, Priority::Ordinary]
            .into_iter()
            .find_map(|priority| self.next_of(priority))?;
        let key = self.order.remove(&position)?;
        let waiting = self.waiting.remove(&key)?;
        self.turn = self.turn.max(position.1);
        if self.waiting.is_empty() {
            self.turns.clear();
        }
        self.writing.insert(key, position.0);
        Some((waiting.decision, position.0))
    }

    pub fn done(&mut self, key: &ObjectKey) {
        self.writing.remove(key);
    }

    /// Whether nothing is pending or being written.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.writing.is_empty()
    }

    fn next_of(&self, priority: Priority) -> Option<Position> {
        let busy = self.writing.values().filter(|busy| **busy == priority);
        if busy.count() >= self.workers {
            return None;
        }
        let mut waiting = self
            .order
            .range((priority, 0, 0)..=(priority, u64::MAX, u64::MAX));
        let next = waiting.find(|(_, key)| !self.writing.contains_key(*key));
        next.map(|(position, _)| *position)
    }
}

#[cfg(test)]
mod tests {
    use api::vpa::VerticalPodAutoscalerStatus;
    use proptest::prelude::*;
    use serde_json::json;
    use view::Vpa;

    use super::*;
    use crate::fixture;

    const WORKERS: usize = 2;

    /// The generation tells decisions of one object apart.
    fn decision(name: &str, generation: i64, change: StatusChange) -> Arc<Decision> {
        let status = VerticalPodAutoscalerStatus {
            observed_generation: generation,
            ..Default::default()
        };
        let vpa = Arc::new(fixture::vpa(name, &json!({})));
        Arc::new(Decision {
            vpa,
            status,
            pods: 1,
            unsupported: false,
            change,
        })
    }

    enum Step {
        Put(&'static str, i64, Priority),
        /// A decision that changes bounds alone.
        PutBounds(&'static str, i64),
        Take(Option<(&'static str, i64)>),
        Done(&'static str),
        Withdraw(&'static str),
    }
    use Priority::{Ordinary, Urgent};
    use Step::{Done, Put, PutBounds, Take, Withdraw};

    fn check(steps: &[Step]) {
        let mut queue = WriteQueue::new(WORKERS, Duration::from_hours(1));
        let put = |queue: &mut WriteQueue, name, generation, change, priority| {
            let decision = decision(name, generation, change);
            queue.put(decision, priority, Duration::ZERO);
        };
        for (index, step) in steps.iter().enumerate() {
            match step {
                Put(name, generation, priority) => {
                    put(
                        &mut queue,
                        name,
                        *generation,
                        StatusChange::Decision,
                        *priority,
                    );
                }
                PutBounds(name, generation) => {
                    put(
                        &mut queue,
                        name,
                        *generation,
                        StatusChange::Bounds,
                        Ordinary,
                    );
                }
                Withdraw(name) => put(&mut queue, name, 0, StatusChange::None, Ordinary),
                Take(expected) => {
                    let taken = queue.take();
                    let taken = taken.as_ref().map(|(taken, _)| {
                        let name = taken.vpa.key.name.as_str();
                        (name, taken.status.observed_generation)
                    });
                    assert_eq!(taken, *expected, "step {index}");
                }
                Done(name) => queue.done(&ObjectKey::new("shop", *name)),
            }
        }
    }

    #[test]
    fn an_urgent_write_overtakes_those_that_wait_and_those_that_are_busy() {
        check(&[
            Put("a", 1, Ordinary),
            Put("b", 1, Ordinary),
            Put("c", 1, Ordinary),
            Take(Some(("a", 1))),
            Take(Some(("b", 1))),
            Take(None),
            Put("d", 1, Urgent),
            Take(Some(("d", 1))),
            Take(None),
            Done("a"),
            Take(Some(("c", 1))),
        ]);
    }

    #[test]
    fn many_statuses_of_a_namespace_delay_no_other() {
        let mut queue = WriteQueue::new(WORKERS, Duration::ZERO);
        let mut put = |namespace: &str, name: &str| {
            let decision = decision(name, 1, StatusChange::Decision);
            let mut decision = Arc::unwrap_or_clone(decision);
            let mut vpa = Vpa::clone(&decision.vpa);
            vpa.key = ObjectKey::new(namespace, name);
            decision.vpa = Arc::new(vpa);
            queue.put(Arc::new(decision), Ordinary, Duration::ZERO);
        };
        for number in 0..100 {
            put("many", &number.to_string());
        }
        put("other", "a");
        put("other", "b");
        let taken = std::iter::from_fn(|| {
            let (taken, _) = queue.take()?;
            queue.done(&taken.vpa.key);
            Some(taken.vpa.key.to_string())
        });
        let first: Vec<_> = taken.take(4).collect();
        assert_eq!(first, ["many/0", "other/a", "many/1", "other/b"]);
    }

    #[test]
    fn only_the_latest_decision_is_written_and_it_keeps_the_better_place() {
        for (first, again, expected) in [
            ([Ordinary; 2], Put("b", 2, Urgent), ("b", 2)),
            ([Urgent; 2], Put("a", 2, Ordinary), ("a", 2)),
            ([Ordinary; 2], Put("a", 2, Ordinary), ("a", 2)),
        ] {
            let [a, b] = first;
            check(&[Put("a", 1, a), Put("b", 1, b), again, Take(Some(expected))]);
        }
    }

    #[test]
    fn what_is_out_of_date_before_its_turn_is_not_written() {
        check(&[
            Put("a", 1, Ordinary),
            Put("b", 1, Ordinary),
            Withdraw("a"),
            Withdraw("c"),
            Take(Some(("b", 1))),
            Take(None),
        ]);
    }

    #[test]
    fn an_object_that_is_being_written_waits_for_the_end_of_it() {
        check(&[
            Put("a", 1, Ordinary),
            Take(Some(("a", 1))),
            Put("a", 2, Urgent),
            Take(None),
            Put("b", 1, Urgent),
            Take(Some(("b", 1))),
            Done("a"),
            Take(Some(("a", 2))),
            Take(None),
        ]);
    }

    #[test]
    fn bounds_wait_for_their_time_but_replace_what_is_pending() {
        check(&[
            PutBounds("a", 1),
            Take(None),
            Put("a", 2, Ordinary),
            Put("b", 1, Ordinary),
            PutBounds("b", 2),
            Take(Some(("a", 2))),
            Take(Some(("b", 2))),
        ]);
    }

    proptest! {
        /// Whatever the order of puts and ends, decisions about one object are written in the order
        /// in which they were made, one at a time, and the last one is written.
        #[test]
        fn no_older_status_follows_a_newer_one(steps in proptest::collection::vec((0usize..4, 0usize..3), 1..60)) {
            const NAMES: [&str; 3] = ["a", "b", "c"];
            let mut queue = WriteQueue::new(WORKERS, Duration::ZERO);
            let (mut made, mut written) = ([0; 3], [0; 3]);
            let mut busy: Vec<usize> = Vec::new();
            let number = |decision: &Decision| {
                NAMES.iter().position(|name| *name == decision.vpa.key.name).expect("one of them")
            };
            let mut write = |queue: &mut WriteQueue, busy: &mut Vec<usize>| {
                while let Some((taken, _)) = queue.take() {
                    let object = number(&taken);
                    assert!(!busy.contains(&object) && taken.status.observed_generation > written[object]);
                    written[object] = taken.status.observed_generation;
                    busy.push(object);
                }
            };
            for (what, object) in steps {
                match what {
                    0 if !busy.is_empty() => queue.done(&ObjectKey::new("shop", NAMES[busy.remove(object % busy.len())])),
                    0 => {}
                    _ => {
                        made[object] += 1;
                        let priority = if what == 1 { Urgent } else { Ordinary };
                        let decision = decision(NAMES[object], made[object], StatusChange::Decision);
                        queue.put(decision, priority, Duration::ZERO);
                    }
                }
                write(&mut queue, &mut busy);
            }
            while let Some(object) = busy.pop() {
                queue.done(&ObjectKey::new("shop", NAMES[object]));
                write(&mut queue, &mut busy);
            }
            prop_assert!(queue.is_empty());
            prop_assert_eq!(made, written);
        }
    }
}
