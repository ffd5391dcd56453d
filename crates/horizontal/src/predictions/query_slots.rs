//! Limit on concurrent history reads, shared fairly among namespaces.
//!
//! A free slot goes to the namespace with the fewest slots, and among these to the one with the
//! least recent query time. No namespace has more than half of the slots, so that others find one
//! at once. A namespace with slow queries pauses after each, so that it keeps a processor of the
//! store busy for at most a quarter of the time.

use std::collections::BTreeMap;
use std::time::Duration;

/// Half-life of recent query time, in seconds.
const HALF_LIFE: f64 = 60.0;
/// Recent query time in seconds above which a namespace gets no slot: its queries may take
/// `MAX_USED * ln(2) / HALF_LIFE` = 0.23 seconds of the store per second.
const MAX_USED: f64 = 20.0;
/// Recent query time in seconds below which a namespace is forgotten.
const MIN_USED: f64 = 0.01;

#[derive(Debug)]
pub struct QuerySlots {
    slots: usize,
    in_use: usize,
    namespaces: BTreeMap<String, Share>,
}

#[derive(Debug, Default)]
struct Share {
    in_use: usize,
    /// Recent query time in seconds, as of `at`.
    used: f64,
    /// Seconds since 1970.
    at: i64,
}

impl Share {
    fn used(&self, now: i64) -> f64 {
        let age = now.saturating_sub(self.at).max(0) as f64;
        self.used * (-age / HALF_LIFE).exp2()
    }
}

impl QuerySlots {
    /// At least one slot.
    pub fn new(slots: usize) -> Self {
        Self {
            slots: slots.max(1),
            in_use: 0,
            namespaces: BTreeMap::new(),
        }
    }

    /// Returns the namespace that gets the next slot; `None` while all have to wait. A namespace
    /// may occur several times in `waiting`, which is not read while all slots are in use.
    pub fn next_namespace<'a>(
        &self,
        waiting: impl Iterator<Item = &'a str>,
        now: i64,
    ) -> Option<&'a str> {
        if self.in_use >= self.slots {
            return None;
        }
        let usage = |namespace: &str| {
            let share = self.namespaces.get(namespace);
            share.map_or((0, 0.0), |share| (share.in_use, share.used(now)))
        };
        let max_per_namespace = self.slots.div_ceil(2);
        let usages = waiting.map(|namespace| (usage(namespace), namespace));
        let open =
            usages.filter(|((in_use, used), _)| *in_use < max_per_namespace && *used <= MAX_USED);
        let first = open
            .min_by(|((a, a_used), _), ((b, b_used), _)| a.cmp(b).then(a_used.total_cmp(b_used)));
        first.map(|(_, namespace)| namespace)
    }

    pub fn acquire(&mut self, namespace: &str) {
        self.in_use += 1;
        let share = self.namespaces.entry(namespace.to_owned()).or_default();
        share.in_use += 1;
    }

    /// Frees a slot of a namespace after some query time.
    pub fn release(&mut self, namespace: &str, used: Duration, now: i64) {
        if let Some(share) = self.namespaces.get_mut(namespace) {
            self.in_use = self.in_use.saturating_sub(1);
            share.in_use = share.in_use.saturating_sub(1);
            (share.used, share.at) = (share.used(now) + used.as_secs_f64(), now);
        }
    }

    pub fn forget(&mut self, now: i64) {
        self.namespaces
            .retain(|_, share| share.in_use > 0 || share.used(now) > MIN_USED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_767_225_600;

    /// Namespaces that get slots one after the other, while all of them wait.
    fn granted(slots: &mut QuerySlots, waiting: &[&str]) -> Vec<String> {
        let mut granted = Vec::new();
        while let Some(namespace) = slots.next_namespace(waiting.iter().copied(), NOW) {
            slots.acquire(namespace);
            granted.push(namespace.to_owned());
        }
        granted
    }

    #[test]
    fn one_namespace_gets_half_of_the_slots_and_two_get_equal_numbers() {
        assert_eq!(granted(&mut QuerySlots::new(10), &["a"]).len(), 5);
        let mut slots = QuerySlots::new(10);
        assert_eq!(granted(&mut slots, &["a"]).len(), 5);
        assert_eq!(granted(&mut slots, &["a", "b"]), ["b"; 5]);
        let mut slots = QuerySlots::new(4);
        assert_eq!(granted(&mut slots, &["a", "b"]), ["a", "b", "a", "b"]);
        assert_eq!(granted(&mut QuerySlots::new(1), &["a", "b"]), ["a"]);
    }

    #[test]
    fn a_namespace_of_slow_queries_uses_a_quarter_of_the_time() {
        let mut slots = QuerySlots::new(10);
        let (took, mut used) = (5, 0);
        let mut now = NOW;
        while now < NOW + 3600 {
            let next = slots.next_namespace(["slow"].into_iter(), now);
            if next.is_some() {
                slots.acquire("slow");
                now += took;
                slots.release("slow", Duration::from_secs(took.unsigned_abs()), now);
                used += took;
            } else {
                let other = slots.next_namespace(["quick"].into_iter(), now);
                assert_eq!(other, Some("quick"));
                now += 1;
            }
        }
        assert!((800..=1000).contains(&used), "{used} of 3600 s");
    }

    #[test]
    fn waiting_namespaces_are_not_read_while_all_slots_are_in_use() {
        let mut slots = QuerySlots::new(1);
        slots.acquire("a");
        let waiting = std::iter::repeat_with(|| -> &'static str { panic!("no slot is free") });
        assert_eq!(slots.next_namespace(waiting, NOW), None);
    }

    #[test]
    fn the_namespace_with_less_recent_query_time_comes_first() {
        let mut slots = QuerySlots::new(2);
        for (namespace, seconds) in [("slow", 16), ("quick", 1)] {
            slots.acquire(namespace);
            slots.release(namespace, Duration::from_secs(seconds), NOW);
        }
        let next = |slots: &QuerySlots| slots.next_namespace(["quick", "slow"].into_iter(), NOW);
        for _ in 0..60 {
            assert_eq!(next(&slots), Some("quick"));
            slots.acquire("quick");
            assert_eq!(next(&slots), Some("slow"));
            slots.release("quick", Duration::from_millis(200), NOW);
        }
        slots.acquire("quick");
        slots.release("quick", Duration::from_secs(10), NOW);
        assert_eq!(next(&slots), Some("slow"));
        slots.forget(NOW + 2 * 3600);
        assert!(slots.namespaces.is_empty());
    }
}
