//! The state that readers follow: values by key, and each reader's place in it.
//!
//! Every change gets the next number (its revision), and a key stands in the order of changes once,
//! at its latest one. A reader is a place in that order, so it costs the same memory however far
//! behind it is, and changes that it is too slow for become one by themselves. A reader that begins
//! walks the keys, so that each key that lasts is met however fast values change meanwhile, and
//! then follows the changes since its beginning. Deletions are remembered up to a number; a reader
//! that was behind those that were forgotten begins again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

/// The name of a value.
pub type Key = Arc<str>;

/// Values by key.
#[derive(Debug)]
pub struct Board<V> {
    entries: BTreeMap<Key, Entry<V>>,
    by_revision: BTreeMap<u64, Key>,
    /// Of the latest change.
    revision: u64,
    deletions: usize,
    max_deletions: usize,
    /// Of the latest deletion that is no longer remembered.
    forgotten: u64,
}

#[derive(Debug)]
struct Entry<V> {
    revision: u64,
    changed_at: Timestamp,
    /// Absent: deleted.
    value: Option<V>,
}

/// A reader's place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place(State);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum State {
    /// Nothing was read.
    #[default]
    New,
    /// Walking the keys; this one was the last. Changes after `since` are to be followed then.
    Walking { last: Key, since: u64 },
    /// Everything up to here was read.
    Following { since: u64 },
}

/// One step of a reader.
#[derive(Debug, Clone, PartialEq)]
pub struct Step<V> {
    /// What the reader learns.
    pub change: Change<V>,
    /// Changes that it was too slow for; later ones of the same keys took their place.
    pub coalesced: u64,
    /// When the oldest of the changes happened.
    pub oldest: Option<Timestamp>,
}

/// What a reader learns.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<V> {
    /// Part of everything that there is. What is in no part is gone once the reset is complete.
    Reset {
        /// Values of this part.
        items: Vec<Item<V>>,
        /// Whether this part is the first; those of an earlier reset that was not completed are
        /// void.
        first: bool,
        /// Whether this part is the last.
        complete: bool,
    },
    /// New and changed values.
    Apply(Vec<Item<V>>),
    /// Keys that are gone.
    Delete(Vec<Key>),
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Item<V> {
    /// Its name.
    pub key: Key,
    /// The number of its latest change.
    pub revision: u64,
    /// When that happened.
    pub changed_at: Timestamp,
    /// The value.
    pub value: V,
}

impl<V: Clone + PartialEq> Board<V> {
    /// An empty board that remembers at most so many deletions.
    pub fn new(max_deletions: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            by_revision: BTreeMap::new(),
            revision: 0,
            deletions: 0,
            max_deletions,
            forgotten: 0,
        }
    }

    /// The number of the latest change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.entries.len() - self.deletions
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets a value; an equal one changes nothing.
    pub fn apply(&mut self, key: &str, value: V, now: Timestamp) {
        if self
            .entries
            .get(key)
            .is_none_or(|entry| entry.value.as_ref() != Some(&value))
        {
            self.put(key.into(), Some(value), now);
        }
    }

    /// Removes a value, if it is there.
    pub fn delete(&mut self, key: &str, now: Timestamp) {
        if self
            .entries
            .get(key)
            .is_some_and(|entry| entry.value.is_some())
        {
            self.put(key.into(), None, now);
            self.forget();
        }
    }

    /// Makes these the only values; those that are equal do not change.
    pub fn reset(&mut self, values: BTreeMap<Key, V>, now: Timestamp) {
        let is_gone =
            |key: &Key, entry: &Entry<V>| entry.value.is_some() && !values.contains_key(key);
        let gone: Vec<_> = self
            .entries
            .iter()
            .filter(|(key, entry)| is_gone(key, entry))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.delete(&key, now);
        }
        for (key, value) in values {
            self.apply(&key, value, now);
        }
    }

    fn put(&mut self, key: Key, value: Option<V>, now: Timestamp) {
        self.revision += 1;
        self.by_revision.insert(self.revision, key.clone());
        self.deletions += usize::from(value.is_none());
        if let Some(old) = self.entries.insert(
            key,
            Entry {
                revision: self.revision,
                changed_at: now,
                value,
            },
        ) {
            self.by_revision.remove(&old.revision);
            self.deletions -= usize::from(old.value.is_none());
        }
    }

    /// Forgets the oldest deletions while there are too many.
    fn forget(&mut self) {
        // Half of them at once, so that the walk over older values is paid rarely.
        if self.deletions <= self.max_deletions {
            return;
        }
        let is_deletion = |key: &Key| {
            self.entries
                .get(key)
                .is_some_and(|entry| entry.value.is_none())
        };
        let surplus = self.deletions - self.max_deletions / 2;
        let oldest: Vec<(u64, Key)> = self
            .by_revision
            .iter()
            .filter(|(_, key)| is_deletion(key))
            .take(surplus)
            .map(|(revision, key)| (*revision, key.clone()))
            .collect();
        for (revision, key) in oldest {
            self.by_revision.remove(&revision);
            self.entries.remove(&key);
            self.deletions -= 1;
            self.forgotten = self.forgotten.max(revision);
        }
    }

    /// What the reader learns next, or nothing if it knows everything. A step ends before a value
    /// that does not fit.
    pub fn next(&self, place: &mut Place, mut fits: impl FnMut(&V) -> bool) -> Option<Step<V>> {
        match place.0.clone() {
            State::New => Some(self.walk(place, None, self.revision, fits)),
            State::Walking { since, .. } | State::Following { since } if since < self.forgotten => {
                Some(self.walk(place, None, self.revision, fits))
            }
            State::Walking { last, since } => Some(self.walk(place, Some(&last), since, fits)),
            State::Following { since } => self.follow(place, since, &mut fits),
        }
    }

    fn walk(
        &self,
        place: &mut Place,
        last: Option<&Key>,
        since: u64,
        mut fits: impl FnMut(&V) -> bool,
    ) -> Step<V> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut items: Vec<Item<V>> = Vec::new();
        let mut complete = true;
        for (key, entry) in self.entries.range::<Key, _>((from, Bound::Unbounded)) {
            let Some(value) = &entry.value else { continue };
            if !fits(value) && !items.is_empty() {
                complete = false;
                break;
            }
            items.push(item(key, entry, value));
        }
        place.0 = match items.last() {
            Some(item) if !complete => State::Walking {
                last: item.key.clone(),
                since,
            },
            _ => State::Following { since },
        };
        Step {
            change: Change::Reset {
                items,
                first: last.is_none(),
                complete,
            },
            coalesced: 0,
            oldest: None,
        }
    }

    /// Values and deletions come in the order of changes; a step ends where one follows the other.
    fn follow(
        &self,
        place: &mut Place,
        since: u64,
        fits: &mut impl FnMut(&V) -> bool,
    ) -> Option<Step<V>> {
        let mut reached = since;
        let mut oldest = None;
        let (mut items, mut deleted) = (Vec::new(), Vec::new());
        for (revision, key) in self
            .by_revision
            .range((Bound::Excluded(since), Bound::Unbounded))
        {
            let Some(entry) = self.entries.get(key) else {
                continue;
            };
            match &entry.value {
                Some(value) if deleted.is_empty() && (fits(value) || items.is_empty()) => {
                    items.push(item(key, entry, value));
                }
                None if items.is_empty() && deleted.len() < MAX_DELETED => {
                    deleted.push(key.clone())
                }
                _ => break,
            }
            oldest = oldest.or(Some(entry.changed_at));
            reached = *revision;
        }
        let count = (items.len() + deleted.len()) as u64;
        let change = if !items.is_empty() {
            Change::Apply(items)
        } else if !deleted.is_empty() {
            Change::Delete(deleted)
        } else {
            return None;
        };
        place.0 = State::Following { since: reached };
        Some(Step {
            change,
            coalesced: (reached - since).saturating_sub(count),
            oldest,
        })
    }
}

/// The most keys in one deletion.
const MAX_DELETED: usize = 1000;

fn item<V: Clone>(key: &Key, entry: &Entry<V>, value: &V) -> Item<V> {
    Item {
        key: key.clone(),
        revision: entry.revision,
        changed_at: entry.changed_at,
        value: value.clone(),
    }
}
