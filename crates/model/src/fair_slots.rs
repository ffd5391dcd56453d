//! Slots and time, shared fairly by key, such as a namespace.
//!
//! A key has at most its share of the slots, so that others find one at once. The time that it used
//! is an account: a key that used more than `burst` waits until enough has come back, so that slow
//! work takes at most `rate` seconds per second.
//!
//! ```text
//! burst 1 s, rate 1/8
//! t = 0 s    four uses of 1.5 s each: 6 s used, 1 s of them free: a debt of 5 s
//! t = 1.5 s  the debt shrinks by 1/8 s per second: the next use begins at t = 41.5 s
//! ```

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of remembered keys above which those without slots and used time are forgotten.
const MANY_KEYS: usize = 1024;

/// Slots and the keys that use them. Times are those since a moment of the caller's choice.
#[derive(Debug, Clone)]
pub struct FairSlots<K> {
    slots: usize,
    per_key: usize,
    /// Seconds that a key may use at once.
    burst: f64,
    /// Seconds that a key gets back per second.
    rate: f64,
    in_use: usize,
    keys: BTreeMap<K, Share>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Share {
    in_use: usize,
    /// Seconds used beyond what came back, as of `at`.
    used: f64,
    at: Duration,
}

impl Share {
    fn used(&self, rate: f64, now: Duration) -> f64 {
        let back = now.saturating_sub(self.at).as_secs_f64() * rate;
        (self.used - back).max(0.0)
    }
}

impl<K: Ord> FairSlots<K> {
    /// Slots of all keys together, and the most of one key, without a limit on time.
    pub fn new(slots: usize, per_key: usize) -> Self {
        Self {
            slots,
            per_key,
            burst: f64::INFINITY,
            rate: 1.0,
            in_use: 0,
            keys: BTreeMap::new(),
        }
    }

    /// Limits the time of a key: `burst` seconds at once, then `rate` seconds per second.
    #[must_use]
    pub fn with_time(self, burst: f64, rate: f64) -> Self {
        Self {
            burst,
            rate,
            ..self
        }
    }

    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// Whether a slot is free for this key.
    pub fn has_room<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let of_key = self.keys.get(key).map_or(0, |share| share.in_use);
        self.in_use < self.slots && of_key < self.per_key
    }

    /// Takes a slot for this key, if one is free.
    pub fn try_acquire(&mut self, key: K) -> bool {
        let has_room = self.has_room(&key);
        if has_room {
            self.in_use += 1;
            self.keys.entry(key).or_default().in_use += 1;
        }
        has_room
    }

    pub fn release<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let Some(share) = self.keys.get_mut(key).filter(|share| share.in_use > 0) else {
            return;
        };
        share.in_use -= 1;
        self.in_use -= 1;
        if share.in_use == 0 && share.used <= 0.0 {
            self.keys.remove(key);
        }
    }

    /// Adds time that this key used.
    pub fn charge(&mut self, key: K, used: Duration, now: Duration) {
        let rate = self.rate;
        if self.keys.len() >= MANY_KEYS && !self.keys.contains_key(&key) {
            let is_needed = |share: &Share| share.in_use > 0 || share.used(rate, now) > 0.0;
            self.keys.retain(|_, share| is_needed(share));
        }
        let share = self.keys.entry(key).or_default();
        (share.used, share.at) = (share.used(rate, now) + used.as_secs_f64(), now);
    }

    /// The time until this key may begin its next use; zero within its burst.
    pub fn wait<Q: Ord + ?Sized>(&self, key: &Q, now: Duration) -> Duration
    where
        K: Borrow<Q>,
    {
        let share = self.keys.get(key);
        let used = share.map_or(0.0, |share| share.used(self.rate, now));
        Duration::from_secs_f64((used - self.burst).max(0.0) / self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_hours(490_896);

    type Slots = FairSlots<&'static str>;

    fn at(seconds: u64) -> Duration {
        START + Duration::from_secs(seconds)
    }

    #[test]
    fn slots_that_are_released_leave_nothing() {
        let mut slots = Slots::new(3, 2);
        let taken = ["a", "a", "a", "b", "c"].map(|key| slots.try_acquire(key));
        assert_eq!(taken, [true, true, false, true, false]);
        assert_eq!(slots.in_use(), 3);
        for key in ["a", "c", "b", "a", "a"] {
            slots.release(key);
        }
        assert_eq!((slots.in_use(), slots.keys.len()), (0, 0));
    }

    #[test]
    fn a_key_waits_until_its_debt_is_paid_and_others_do_not() {
        let mut slots = Slots::new(10, 5).with_time(1.0, 0.125);
        for _ in 0..4 {
            slots.charge("slow", Duration::from_millis(1500), START);
        }
        for (seconds, expected) in [(0, 40), (30, 10), (40, 0), (50, 0)] {
            let wait = slots.wait("slow", at(seconds));
            assert_eq!(wait, Duration::from_secs(expected), "{seconds}");
        }
        assert_eq!(slots.wait("quick", START), Duration::ZERO);
    }

    #[test]
    fn keys_without_a_debt_are_forgotten() {
        let mut slots = FairSlots::new(1, 1).with_time(1.0, 0.125);
        for number in 0..10_000_u64 {
            let now = START + Duration::from_millis(100 * number);
            slots.charge(number, Duration::from_millis(10), now);
        }
        assert!(slots.keys.len() <= MANY_KEYS);
    }
}
