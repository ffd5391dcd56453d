//! A bounded table of what was learnt recently: entries end with their time, and those that are not
//! used make room first.
//!
//! Two generations instead of a list in order of use: what is used moves to the young one, and when
//! that is full the old one is dropped whole. Each step costs a look-up, whatever the size. Time is
//! an argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

use tokio::time::Instant;

/// The table.
#[derive(Debug)]
pub struct Recent<K, V> {
    /// Of one generation, at least one.
    most: usize,
    young: HashMap<K, Entry<V>>,
    old: HashMap<K, Entry<V>>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    until: Instant,
}

impl<K: Hash + Eq + Clone, V> Recent<K, V> {
    /// For at most `capacity` entries, and for the half of it that was used last in any case.
    pub fn new(capacity: usize) -> Self {
        Self {
            most: (capacity / 2).max(1),
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    /// What is known, if its time is not over.
    pub fn get(&mut self, key: &K, now: Instant) -> Option<&V> {
        if let Some((key, entry)) = self.old.remove_entry(key) {
            self.put(key, entry);
        }
        let is_over = self.young.get(key).is_some_and(|entry| entry.until <= now);
        if is_over {
            self.young.remove(key);
        }
        self.young.get(key).map(|entry| &entry.value)
    }

    /// Learns something that counts until then.
    pub fn insert(&mut self, key: K, value: V, until: Instant) {
        self.old.remove(&key);
        self.put(key, Entry { value, until });
    }

    fn put(&mut self, key: K, entry: Entry<V>) {
        if self.young.len() >= self.most && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, entry);
    }

    /// How many entries there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_keys_do_not_make_it_grow_and_what_is_used_stays() {
        let now = Instant::now();
        let mut recent = Recent::new(100);
        recent.insert(0, "used", now + Duration::from_mins(1));
        for key in 1..10_000 {
            recent.insert(key, "passing", now + Duration::from_mins(1));
            assert!(recent.len() <= 100, "{} entries after {key}", recent.len());
            if key % 25 == 0 {
                assert_eq!(recent.get(&0, now), Some(&"used"), "after {key}");
            }
        }
        assert_eq!(recent.get(&1, now), None);
        assert_eq!(recent.get(&9_999, now), Some(&"passing"));
    }

    #[test]
    fn entries_end_with_their_time() {
        let now = Instant::now();
        let mut recent = Recent::new(10);
        recent.insert("a", 1, now + Duration::from_secs(10));
        assert_eq!(recent.get(&"a", now + Duration::from_secs(9)), Some(&1));
        assert_eq!(recent.get(&"a", now + Duration::from_secs(10)), None);
        assert_eq!(recent.len(), 0);
        recent.insert("a", 2, now + Duration::from_secs(20));
        recent.insert("a", 3, now + Duration::from_secs(30));
        assert_eq!(recent.get(&"a", now), Some(&3));
        assert_eq!(recent.len(), 1);
    }
}
