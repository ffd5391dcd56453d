//! Order of reading scale subresources: round robin over namespaces and API groups, with limits
//! on concurrent reads. A group whose server does not answer delays only its own objects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use model::FairSlots;
use tokio::time::Instant;
use view::{PodSet, Scale, ScaleKey};

const MOST: usize = 32;
/// Limit of concurrent reads of one API group: four groups whose servers hang use up [`MOST`].
const MOST_OF_GROUP: usize = 8;
/// Limit of concurrent reads of one API group in one namespace.
const MOST_OF_LANE: usize = 2;
/// Refresh interval; jitter makes it up to twice as long.
const REFRESH: Duration = Duration::from_mins(10);
/// Delay after a first failure; doubles with each further failure, up to [`REFRESH`].
const RETRY: Duration = Duration::from_secs(15);

/// Namespace and API group.
type Lane = (String, String);

#[derive(Debug)]
pub(super) struct ReadQueue {
    known: BTreeMap<ScaleKey, KeyState>,
    /// Due times of the keys that are neither due nor being read.
    later: BTreeSet<(Instant, ScaleKey)>,
    /// Due keys, all in `known`. Those that were read or are being read meanwhile are skipped.
    due: BTreeMap<Lane, VecDeque<ScaleKey>>,
    lanes: FairSlots<Lane>,
    groups: FairSlots<String>,
    last: Option<Lane>,
}

#[derive(Debug, Default)]
struct KeyState {
    failures: u32,
    /// Due time; `None` while it is due or being read.
    at: Option<Instant>,
    /// Whether the last read found a scale.
    was_found: bool,
    /// Live pods of the owner. When they change, a found scale is read again at once: an eviction
    /// needs a scale that is not older than the observed pods. One that was not found is read again
    /// when the first pods appear.
    pods: PodSet,
    is_read: bool,
    /// Whether the pods changed while it was being read.
    is_outdated: bool,
}

impl Default for ReadQueue {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            later: BTreeSet::new(),
            due: BTreeMap::new(),
            lanes: FairSlots::new(MOST, MOST_OF_LANE),
            groups: FairSlots::new(MOST, MOST_OF_GROUP),
            last: None,
        }
    }
}

impl ReadQueue {
    /// Replaces the keys to read by `needed`; returns those that are no longer needed.
    pub(super) fn update(&mut self, needed: &BTreeMap<ScaleKey, PodSet>) -> Vec<ScaleKey> {
        let gone: Vec<ScaleKey> = self
            .known
            .keys()
            .filter(|key| !needed.contains_key(*key))
            .cloned()
            .collect();
        let mut lanes = BTreeSet::new();
        for key in &gone {
            match self.known.remove(key).and_then(|known| known.at) {
                Some(at) => self.later.remove(&(at, key.clone())),
                None => lanes.insert(lane(key)),
            };
        }
        for lane in lanes {
            let Some(due) = self.due.get_mut(&lane) else {
                continue;
            };
            due.retain(|key| self.known.contains_key(key));
            if due.is_empty() {
                self.due.remove(&lane);
            }
        }
        for (key, pods) in needed {
            let Some(known) = self.known.get_mut(key) else {
                let state = KeyState {
                    pods: *pods,
                    ..KeyState::default()
                };
                self.known.insert(key.clone(), state);
                make_due(&mut self.due, key.clone());
                continue;
            };
            let before = std::mem::replace(&mut known.pods, *pods);
            if before == *pods {
                continue;
            }
            known.is_outdated = known.is_read;
            // The first pods of an owner may appear with the owner. A failing key keeps its delay.
            let is_first = before == PodSet::default() && known.failures == 0;
            if (known.was_found || is_first)
                && let Some(at) = known.at.take()
            {
                self.later.remove(&(at, key.clone()));
                make_due(&mut self.due, key.clone());
            }
        }
        gone
    }

    /// Returns the reads to start now, with the live pods of the owners.
    pub(super) fn begin(&mut self, now: Instant) -> Vec<(ScaleKey, PodSet)> {
        while let Some((_, key)) = self.later.first().filter(|(at, _)| *at <= now).cloned() {
            self.later.pop_first();
            if let Some(known) = self.known.get_mut(&key) {
                known.at = None;
                make_due(&mut self.due, key);
            }
        }
        std::iter::from_fn(|| self.next()).collect()
    }

    fn next(&mut self) -> Option<(ScaleKey, PodSet)> {
        if self.lanes.in_use() >= MOST {
            return None;
        }
        loop {
            let has_room = |lane: &Lane| self.lanes.has_room(lane) && self.groups.has_room(&lane.1);
            let start = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let after = self.due.range::<Lane, _>((start, Bound::Unbounded));
            let lane = after
                .chain(&self.due)
                .map(|(lane, _)| lane)
                .find(|lane| has_room(lane))?
                .clone();
            let due = self.due.get_mut(&lane)?;
            let begun = std::iter::from_fn(|| due.pop_front()).find_map(|key| {
                let known = self
                    .known
                    .get_mut(&key)
                    .filter(|known| !known.is_read && known.at.is_none())?;
                known.is_read = true;
                Some((key, known.pods))
            });
            if due.is_empty() {
                self.due.remove(&lane);
            }
            self.last = Some(lane.clone());
            if begun.is_some() {
                self.groups.try_acquire(lane.1.clone());
                self.lanes.try_acquire(lane);
                return begun;
            }
        }
    }

    /// Ends a read; returns whether its result is still needed. `chance` is between 0 and 1.
    pub(super) fn end(&mut self, key: &ScaleKey, scale: &Scale, now: Instant, chance: f64) -> bool {
        let lane = lane(key);
        self.groups.release(&lane.1);
        self.lanes.release(&lane);
        let Some(known) = self.known.get_mut(key) else {
            return false;
        };
        // A kind may be installed or granted soon after it was first used.
        let has_failed = matches!(scale, Scale::Failed { .. });
        known.is_read = false;
        let is_outdated = std::mem::take(&mut known.is_outdated);
        known.was_found = matches!(scale, Scale::Found { .. });
        let wait = if has_failed {
            RETRY
                .saturating_mul(2_u32.saturating_pow(known.failures))
                .min(REFRESH)
        } else if is_outdated {
            if known.was_found {
                Duration::ZERO
            } else {
                RETRY
            }
        } else {
            REFRESH.mul_f64(1.0 + chance.clamp(0.0, 1.0))
        };
        known.failures = if has_failed {
            known.failures.saturating_add(1)
        } else {
            0
        };
        // If the key was dropped and needed again meanwhile, it is due already.
        if let Some(before) = known.at.replace(now + wait) {
            self.later.remove(&(before, key.clone()));
        }
        self.later.insert((now + wait, key.clone()));
        true
    }

    /// Due time of the next read; `None` if none is scheduled.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }
}

fn make_due(due: &mut BTreeMap<Lane, VecDeque<ScaleKey>>, key: ScaleKey) {
    due.entry(lane(&key)).or_default().push_back(key);
}

fn lane(key: &ScaleKey) -> Lane {
    (key.namespace.clone(), key.group.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, group: &str, name: usize) -> ScaleKey {
        let [group, namespace] = [group, namespace].map(str::to_owned);
        ScaleKey {
            group,
            kind: "Web".to_owned(),
            namespace,
            name: format!("{name:04}"),
        }
    }

    fn failed(transient: bool) -> Scale {
        Scale::Failed {
            reason: "no".to_owned(),
            transient,
        }
    }

    fn not_found() -> Scale {
        Scale::NotFound {
            reason: "no".to_owned(),
            kind_has_scale: true,
        }
    }

    /// The keys, each of an owner without pods.
    fn needed(keys: impl IntoIterator<Item = ScaleKey>) -> BTreeMap<ScaleKey, PodSet> {
        keys.into_iter()
            .map(|key| (key, PodSet::default()))
            .collect()
    }

    fn begin(queue: &mut ReadQueue, now: Instant) -> Vec<ScaleKey> {
        let begun = queue.begin(now).into_iter();
        begun.map(|(key, _)| key).collect()
    }

    fn names(keys: &[ScaleKey]) -> Vec<String> {
        keys.iter()
            .map(|key| format!("{}/{}", key.namespace, key.name))
            .collect()
    }

    #[test]
    fn namespaces_take_turns() {
        let mut queue = ReadQueue::default();
        let now = Instant::now();
        let many = (0..100).map(|name| key("many", "a", name));
        queue.update(&needed(many.chain([key("one", "a", 0)])));
        let first = begin(&mut queue, now);
        assert_eq!(names(&first), ["many/0000", "one/0000", "many/0001"]);
        for key in &first {
            assert!(queue.end(key, &failed(true), now, 0.0));
        }
        let second = begin(&mut queue, now);
        assert_eq!(names(&second), ["many/0002", "many/0003"]);
        assert!(begin(&mut queue, now).is_empty(), "two are being read");
    }

    #[test]
    fn a_group_that_hangs_leaves_room_for_others() {
        let mut queue = ReadQueue::default();
        let tenants: Vec<String> = (0..50).map(|tenant| format!("t{tenant}")).collect();
        let hanging = tenants
            .iter()
            .flat_map(|tenant| (0..10).map(move |name| key(tenant, "slow", name)));
        queue.update(&needed(
            hanging.chain([key("t7", "fast", 0), key("z", "fast", 1)]),
        ));
        let begun = begin(&mut queue, Instant::now());
        let of_group = |group: &str| begun.iter().filter(|key| key.group == group).count();
        assert_eq!(of_group("slow"), MOST_OF_GROUP);
        assert_eq!(of_group("fast"), 2);
    }

    #[test]
    fn the_number_of_reads_is_bounded() {
        let mut queue = ReadQueue::default();
        let groups: Vec<String> = (0..50).map(|group| format!("g{group}")).collect();
        queue.update(&needed(
            groups
                .iter()
                .flat_map(|group| (0..9).map(move |name| key("a", group, name))),
        ));
        assert_eq!(begin(&mut queue, Instant::now()).len(), MOST);
    }

    #[test]
    fn failures_back_off_and_answers_are_refreshed() {
        let (mut queue, web, mut now) = (ReadQueue::default(), key("a", "g", 0), Instant::now());
        queue.update(&needed([web.clone()]));
        let mut waits = Vec::new();
        // A forbidden read is a failure, too.
        let answers = [
            failed(true),
            failed(false),
            failed(true),
            not_found(),
            failed(true),
        ];
        for answer in answers {
            assert_eq!(begin(&mut queue, now).len(), 1);
            assert!(queue.end(&web, &answer, now, 0.5));
            let due = queue.next_due().expect("it is known");
            waits.push((due - now).as_secs());
            let before = due.checked_sub(Duration::from_millis(1)).expect("later");
            assert!(begin(&mut queue, before).is_empty());
            now = due;
        }
        assert_eq!(waits, [15, 30, 60, 900, 15]);
        for _ in 0..100 {
            begin(&mut queue, now);
            queue.end(&web, &failed(true), now, 0.0);
            now = queue.next_due().expect("it is known");
        }
        begin(&mut queue, now);
        queue.end(&web, &failed(true), now, 0.0);
        assert_eq!(queue.next_due(), Some(now + REFRESH));
    }

    /// The time until the next read after a first read of an owner with one pod gave `scale` and
    /// then one more pod came, and the same for a pod that came during the read.
    fn check_pod_change(scale: &Scale, expected_seconds: [u64; 2]) {
        let (web, now) = (key("a", "g", 0), Instant::now());
        let with = |uids: &[&str]| {
            let mut pods = PodSet::default();
            for uid in uids {
                pods.add(uid);
            }
            BTreeMap::from([(web.clone(), pods)])
        };
        let waits = [false, true].map(|during| {
            let mut queue = ReadQueue::default();
            queue.update(&with(&["1"]));
            assert_eq!(begin(&mut queue, now).len(), 1);
            if during {
                queue.update(&with(&["1", "2"]));
            }
            assert!(queue.end(&web, scale, now, 0.0));
            queue.update(&with(&["1", "2"]));
            if !begin(&mut queue, now).is_empty() {
                return 0;
            }
            (queue.next_due().expect("it is known") - now).as_secs()
        });
        assert_eq!(waits, expected_seconds, "{scale:?}");
    }

    #[test]
    fn pods_that_change_have_only_a_scale_read_again_that_was_found() {
        let found = Scale::Found {
            selector: String::new(),
            owner: None,
            replicas: Some(1),
        };
        check_pod_change(&found, [0, 0]);
        let refresh = REFRESH.as_secs();
        check_pod_change(&not_found(), [refresh, 15]);
        check_pod_change(&failed(false), [15, 15]);
        check_pod_change(&failed(true), [15, 15]);
    }

    #[test]
    fn the_first_pods_of_an_owner_have_a_scale_read_again_that_was_not_found() {
        let (mut queue, web, now) = (ReadQueue::default(), key("a", "g", 0), Instant::now());
        queue.update(&needed([web.clone()]));
        assert_eq!(begin(&mut queue, now).len(), 1);
        assert!(queue.end(&web, &not_found(), now, 0.0));
        let mut pods = PodSet::default();
        pods.add("1");
        queue.update(&BTreeMap::from([(web, pods)]));
        assert_eq!(begin(&mut queue, now).len(), 1);
    }

    #[test]
    fn keys_that_are_no_longer_needed_are_not_read() {
        let mut queue = ReadQueue::default();
        let now = Instant::now();
        let all: Vec<ScaleKey> = (0..4).map(|name| key("a", "g", name)).collect();
        queue.update(&needed(all.iter().cloned()));
        let begun = begin(&mut queue, now);
        assert_eq!(names(&begun), ["a/0000", "a/0001"]);
        queue.end(&all[1], &failed(true), now, 0.0);
        let gone = queue.update(&needed([all[3].clone()]));
        assert_eq!(names(&gone), ["a/0000", "a/0001", "a/0002"]);
        assert!(!queue.end(&all[0], &failed(false), now, 0.0));
        assert_eq!(queue.next_due(), None);
        assert_eq!(names(&begin(&mut queue, now + REFRESH)), ["a/0003"]);
    }

    #[test]
    fn keys_that_go_while_they_are_due_leave_nothing() {
        let mut queue = ReadQueue::default();
        queue.update(&needed((0..100_000).map(|name| key("a", "g", name))));
        assert_eq!(queue.update(&needed([])).len(), 100_000);
        assert!(begin(&mut queue, Instant::now()).is_empty());
        assert!(queue.due.is_empty());
    }

    #[test]
    fn a_key_that_comes_back_while_it_is_due_is_due_once() {
        let (mut queue, web) = (ReadQueue::default(), key("a", "g", 0));
        queue.update(&needed([web.clone()]));
        queue.update(&needed([]));
        queue.update(&needed([web.clone()]));
        assert_eq!(begin(&mut queue, Instant::now()), [web]);
        assert!(begin(&mut queue, Instant::now()).is_empty());
    }

    #[test]
    fn a_key_that_was_answered_while_it_was_due_is_not_read_before_its_time() {
        let (mut queue, now, web) = (ReadQueue::default(), Instant::now(), key("a", "g", 0));
        queue.update(&needed([web.clone()]));
        assert_eq!(begin(&mut queue, now), std::slice::from_ref(&web));
        queue.update(&needed([]));
        queue.update(&needed([web.clone()]));
        assert!(queue.end(&web, &failed(false), now, 0.0));
        assert!(begin(&mut queue, now).is_empty());
        assert_eq!(begin(&mut queue, now + REFRESH), [web]);
    }
}
