//! Which status is written next: urgent ones first, of each object only the latest, and never two
//! of one object at the same time. So an older status cannot take the place of a newer one,
//! whichever way they come.

use std::collections::BTreeMap;
use std::sync::Arc;

use view::ObjectKey;

use crate::state::Decision;

/// How a write waits for its turn. Each lane has as many workers, so that none waits for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Somebody waits for it.
    Urgent,
    /// It is one of many.
    Ordinary,
}

/// Statuses that are to be written or being written.
#[derive(Debug)]
pub struct Queue {
    /// How many of one lane are written at the same time.
    workers: usize,
    waiting: BTreeMap<ObjectKey, Waiting>,
    /// The objects that wait, by their place.
    order: BTreeMap<(Lane, u64), ObjectKey>,
    arrivals: u64,
    writing: BTreeMap<ObjectKey, Lane>,
}

#[derive(Debug)]
struct Waiting {
    decision: Arc<Decision>,
    place: (Lane, u64),
}

impl Queue {
    /// At most `workers` objects of each lane are written at the same time.
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            waiting: BTreeMap::new(),
            order: BTreeMap::new(),
            arrivals: 0,
            writing: BTreeMap::new(),
        }
    }

    /// A decision that was made after all that were put in before. What waits of the same object is
    /// never written; the better place of the two stays.
    pub fn put(&mut self, decision: Arc<Decision>, lane: Lane) {
        self.arrivals += 1;
        let key = decision.autoscaler.key.clone();
        let mut place = (lane, self.arrivals);
        if let Some(old) = self.waiting.get(&key).map(|waiting| waiting.place) {
            self.withdraw(&key);
            place = place.min(old);
        }
        self.order.insert(place, key.clone());
        self.waiting.insert(key, Waiting { decision, place });
    }

    /// What waits of an object is out of date and is not written.
    pub fn withdraw(&mut self, key: &ObjectKey) {
        if let Some(old) = self.waiting.remove(key) {
            self.order.remove(&old.place);
        }
    }

    /// What is to be written now, if anything is. It counts as being written until it is `done`.
    pub fn take(&mut self) -> Option<(Arc<Decision>, Lane)> {
        let place = [Lane::Urgent, Lane::Ordinary]
            .into_iter()
            .find_map(|lane| self.next_of(lane))?;
        let key = self.order.remove(&place)?;
        let waiting = self.waiting.remove(&key)?;
        self.writing.insert(key, place.0);
        Some((waiting.decision, place.0))
    }

    /// The write of an object has ended.
    pub fn done(&mut self, key: &ObjectKey) {
        self.writing.remove(key);
    }

    /// Whether nothing is to be written or being written.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.writing.is_empty()
    }

    fn next_of(&self, lane: Lane) -> Option<(Lane, u64)> {
        if self.writing.values().filter(|busy| **busy == lane).count() >= self.workers {
            return None;
        }
        let mut waiting = self.order.range((lane, 0)..=(lane, u64::MAX));
        waiting
            .find(|(_, key)| !self.writing.contains_key(*key))
            .map(|(place, _)| *place)
    }
}

#[cfg(test)]
mod tests {
    use api::vpa::VerticalPodAutoscalerStatus;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::fixture;

    const WORKERS: usize = 2;

    /// The generation tells decisions of one object apart.
    fn decision(name: &str, generation: i64) -> Arc<Decision> {
        let status = VerticalPodAutoscalerStatus {
            observed_generation: generation,
            ..Default::default()
        };
        let autoscaler = Arc::new(fixture::autoscaler(name, &json!({})));
        Arc::new(Decision {
            autoscaler,
            status,
            pods: 1,
            unsupported: false,
        })
    }

    enum Step {
        Put(&'static str, i64, Lane),
        Take(Option<(&'static str, i64)>),
        Done(&'static str),
        Withdraw(&'static str),
    }
    use Lane::{Ordinary, Urgent};
    use Step::{Done, Put, Take, Withdraw};

    fn check(steps: &[Step]) {
        let mut queue = Queue::new(WORKERS);
        for (index, step) in steps.iter().enumerate() {
            match step {
                Put(name, generation, lane) => queue.put(decision(name, *generation), *lane),
                Take(expected) => {
                    let taken = queue.take();
                    let taken = taken.as_ref().map(|(taken, _)| {
                        (
                            taken.autoscaler.key.name.as_str(),
                            taken.status.observed_generation,
                        )
                    });
                    assert_eq!(taken, *expected, "step {index}");
                }
                Done(name) => queue.done(&ObjectKey::new("shop", *name)),
                Withdraw(name) => queue.withdraw(&ObjectKey::new("shop", *name)),
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
    fn only_the_latest_decision_is_written_and_it_keeps_the_better_place() {
        check(&[
            Put("a", 1, Ordinary),
            Put("b", 1, Ordinary),
            Put("b", 2, Urgent),
            Take(Some(("b", 2))),
        ]);
        check(&[
            Put("a", 1, Urgent),
            Put("b", 1, Urgent),
            Put("a", 2, Ordinary),
            Take(Some(("a", 2))),
        ]);
        check(&[
            Put("a", 1, Ordinary),
            Put("b", 1, Ordinary),
            Put("a", 2, Ordinary),
            Take(Some(("a", 2))),
        ]);
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

    proptest! {
        /// Whatever the order of puts and ends, decisions about one object are written in the order
        /// in which they were made, one at a time, and the last one is written.
        #[test]
        fn no_older_status_follows_a_newer_one(steps in proptest::collection::vec((0usize..4, 0usize..3), 1..60)) {
            const NAMES: [&str; 3] = ["a", "b", "c"];
            let mut queue = Queue::new(WORKERS);
            let (mut made, mut written) = ([0; 3], [0; 3]);
            let mut busy: Vec<usize> = Vec::new();
            let number = |decision: &Decision| {
                NAMES.iter().position(|name| *name == decision.autoscaler.key.name).expect("one of them")
            };
            let mut write = |queue: &mut Queue, busy: &mut Vec<usize>| {
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
                        let lane = if what == 1 { Urgent } else { Ordinary };
                        queue.put(decision(NAMES[object], made[object]), lane);
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
