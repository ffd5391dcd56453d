//! A cache of listed object names, bounded in time and memory. Time is an argument.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time for which a list is cached.
const TTL: Duration = Duration::from_secs(15);
/// The approximate limit of memory. Callers choose selectors, and each selector has its own list.
const MAX_BYTES: usize = 32 << 20;
/// The overhead of a list, and of each name.
const LIST_BYTES: usize = 256;
const NAME_BYTES: usize = 32;

/// The resource, the namespace and the selector of a list.
pub(super) type Key = (String, String, String);

#[derive(Debug, Default)]
pub(super) struct NameCache {
    lists: HashMap<Key, Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    names: Arc<[String]>,
    bytes: usize,
}

impl Entry {
    fn is_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) > TTL
    }
}

impl NameCache {
    /// Returns the names of a list that has not expired.
    pub(super) fn get(&self, key: &Key, now: Instant) -> Option<Arc<[String]>> {
        self.lists
            .get(key)
            .filter(|list| !list.is_expired(now))
            .map(|list| Arc::clone(&list.names))
    }

    /// Caches a list, if there is room.
    pub(super) fn insert(&mut self, key: Key, names: &Arc<[String]>, at: Instant) {
        let texts: usize = names.iter().map(|name| NAME_BYTES + name.len()).sum();
        let bytes = LIST_BYTES + key.0.len() + key.1.len() + key.2.len() + texts;
        self.remove(&key);
        if self.bytes.saturating_add(bytes) > MAX_BYTES {
            self.sweep(at);
        }
        if self.bytes.saturating_add(bytes) > MAX_BYTES {
            self.remove_largest_except(&key.1);
        }
        if self.bytes.saturating_add(bytes) <= MAX_BYTES {
            self.bytes += bytes;
            let names = Arc::clone(names);
            self.lists.insert(key, Entry { at, names, bytes });
        }
    }

    /// Removes expired lists.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.lists.retain(|_, list| !list.is_expired(now));
        self.bytes = self.lists.values().map(|list| list.bytes).sum();
    }

    /// Removes the lists of the namespace with the most memory, unless it is `namespace`: one
    /// namespace must not displace the lists of another.
    fn remove_largest_except(&mut self, namespace: &str) {
        let mut held: HashMap<&str, usize> = HashMap::new();
        for (key, list) in &self.lists {
            *held.entry(&key.1).or_default() += list.bytes;
        }
        let largest = held
            .into_iter()
            .max_by_key(|(_, bytes)| *bytes)
            .map(|(namespace, _)| namespace.to_owned());
        if let Some(largest) = largest.filter(|largest| largest != namespace) {
            self.lists.retain(|key, _| key.1 != largest);
            self.bytes = self.lists.values().map(|list| list.bytes).sum();
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(list) = self.lists.remove(key) {
            self.bytes -= list.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_in(namespace: &str, selector: usize) -> Key {
        let (resource, namespace) = ("deployments.apps".to_owned(), namespace.to_owned());
        (resource, namespace, format!("app={selector}"))
    }

    fn key(selector: usize) -> Key {
        key_in("shop", selector)
    }

    fn names(count: usize) -> Arc<[String]> {
        (0..count)
            .map(|number| format!("deployment-{number:040}"))
            .collect()
    }

    #[test]
    fn a_list_expires() {
        let (mut lists, start) = (NameCache::default(), Instant::now());
        lists.insert(key(1), &names(2), start);
        assert_eq!(lists.get(&key(1), start + TTL).as_deref(), Some(&*names(2)));
        let late = start + TTL + Duration::from_secs(1);
        assert_eq!(lists.get(&key(1), late), None);
        assert_eq!(lists.get(&key(2), start), None);
        lists.insert(key(1), &names(3), start + TTL);
        let later = start + 2 * TTL;
        lists.sweep(later);
        assert_eq!(lists.get(&key(1), later).as_deref(), Some(&*names(3)));
        lists.sweep(start + 3 * TTL);
        assert_eq!((lists.lists.len(), lists.bytes), (0, 0));
    }

    #[test]
    fn lists_of_one_namespace_do_not_displace_those_of_another() {
        let (mut lists, start, names) = (NameCache::default(), Instant::now(), names(5000));
        for selector in 0..1000 {
            lists.insert(key(selector), &names, start);
        }
        let other = key_in("bank", 0);
        lists.insert(other.clone(), &names, start);
        assert!(lists.get(&other, start).is_some());
    }

    #[test]
    fn long_lists_of_many_selectors_are_bounded() {
        let (mut lists, start, names) = (NameCache::default(), Instant::now(), names(5000));
        for selector in 0..1000 {
            lists.insert(key(selector), &names, start);
        }
        let bytes = lists.bytes;
        assert!(bytes <= MAX_BYTES && bytes > MAX_BYTES / 2, "{bytes}");
        assert!(lists.lists.len() < 100, "{}", lists.lists.len());
        let later = start + 2 * TTL;
        lists.insert(key(2000), &names, later);
        assert!(
            lists.get(&key(2000), later).is_some(),
            "those whose time is over make room"
        );
        assert_eq!(lists.lists.len(), 1);
    }
}
