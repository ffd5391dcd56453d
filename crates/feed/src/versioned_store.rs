//! Versioned state for readers: values by key, and a cursor per reader.
//!
//! Every change gets the next revision, and a key appears in the order of changes only at its
//! latest revision. A reader is a cursor into that order, so its memory does not depend on its
//! backlog, and changes that it is too slow for coalesce. A new reader first lists the keys, so
//! that it receives every key that exists throughout, however fast values change, and then watches
//! the changes since its start. A limited number of deletions is kept; a reader behind the compacted ones starts
//! again.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::topic::Change;

pub type Key = Arc<str>;

/// Versioned values by key.
#[derive(Debug)]
pub struct VersionedStore<V> {
    entries: BTreeMap<Key, Entry<V>>,
    by_revision: BTreeMap<u64, Key>,
    revision: u64,
    times: RevisionTimes,
    deletions: usize,
    max_deletions: usize,
    /// Revision of the latest compacted deletion.
    compacted: u64,
}

#[derive(Debug)]
struct Entry<V> {
    revision: u64,
    changed_at: Timestamp,
    /// `None` if deleted.
    value: Option<V>,
}

/// Position of a reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor(State);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum State {
    /// Nothing read yet.
    #[default]
    New,
    /// Listing keys; `last` was the last one. Changes after `since` follow.
    Listing { last: Key, since: u64 },
    /// Everything up to `since` was read.
    Watching { since: u64 },
}

/// One batch of changes for a reader.
#[derive(Debug, Clone, PartialEq)]
pub struct Step<V> {
    pub change: Change<Item<V>>,
    /// Number of changes replaced by later ones of the same keys.
    pub coalesced: u64,
    /// Time of the oldest change that the reader has waited for, of coalesced ones too, up to a tenth
    /// of a second late. `None` for a part of the full state.
    pub oldest: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Item<V> {
    pub key: Key,
    pub revision: u64,
    pub changed_at: Timestamp,
    pub value: V,
}

impl<V: Clone + PartialEq> VersionedStore<V> {
    pub fn new(max_deletions: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            by_revision: BTreeMap::new(),
            revision: 0,
            times: RevisionTimes::default(),
            deletions: 0,
            max_deletions,
            compacted: 0,
        }
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn len(&self) -> usize {
        self.entries.len() - self.deletions
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets a value. An equal value is no change.
    pub fn apply(&mut self, key: &str, value: V, now: Timestamp) {
        if self
            .entries
            .get(key)
            .is_none_or(|entry| entry.value.as_ref() != Some(&value))
        {
            self.put(key.into(), Some(value), now);
        }
    }

    pub fn delete(&mut self, key: &str, now: Timestamp) {
        if self
            .entries
            .get(key)
            .is_some_and(|entry| entry.value.is_some())
        {
            self.put(key.into(), None, now);
            self.compact();
        }
    }

    /// Replaces all values. Equal values are no change.
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
        self.times.record(self.revision, now);
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

    fn compact(&mut self) {
        // Drops half of them at once, to scan the older values rarely.
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
            self.compacted = self.compacted.max(revision);
        }
    }

    /// The next batch for a reader, or `None` if it is up to date. A batch ends before a value that
    /// does not fit.
    pub fn next(&self, cursor: &mut Cursor, mut fits: impl FnMut(&V) -> bool) -> Option<Step<V>> {
        match cursor.0.clone() {
            State::New => Some(self.list(cursor, None, self.revision, fits)),
            State::Listing { since, .. } | State::Watching { since } if since < self.compacted => {
                Some(self.list(cursor, None, self.revision, fits))
            }
            State::Listing { last, since } => Some(self.list(cursor, Some(&last), since, fits)),
            State::Watching { since } => self.watch(cursor, since, &mut fits),
        }
    }

    fn list(
        &self,
        cursor: &mut Cursor,
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
        cursor.0 = match items.last() {
            Some(item) if !complete => State::Listing {
                last: item.key.clone(),
                since,
            },
            _ => State::Watching { since },
        };
        Step {
            change: Change::Reset {
                values: items,
                first: last.is_none(),
                complete,
            },
            coalesced: 0,
            oldest: None,
        }
    }

    /// Values and deletions keep the order of changes; a batch ends where the kind changes.
    fn watch(
        &self,
        cursor: &mut Cursor,
        since: u64,
        fits: &mut impl FnMut(&V) -> bool,
    ) -> Option<Step<V>> {
        let mut reached = since;
        let mut oldest = self.times.first_after(since);
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
                    deleted.push(key.to_string());
                }
                _ => break,
            }
            let earlier = oldest.filter(|earlier| *earlier < entry.changed_at);
            oldest = earlier.or(Some(entry.changed_at));
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
        cursor.0 = State::Watching { since: reached };
        Some(Step {
            change,
            coalesced: (reached - since).saturating_sub(count),
            oldest,
        })
    }
}

const MAX_DELETED: usize = 1000;

fn item<V: Clone>(key: &Key, entry: &Entry<V>, value: &V) -> Item<V> {
    Item {
        key: key.clone(),
        revision: entry.revision,
        changed_at: entry.changed_at,
        value: value.clone(),
    }
}

const INTERVAL: SignedDuration = SignedDuration::from_millis(100);
/// Recorded revisions, 13 minutes of changes without a pause.
const MAX_RECORDED: usize = 8192;

/// Times of the latest revisions, of the first one in each [`INTERVAL`]. The delay of a slow reader
/// follows from them: a value has the time of its latest change only.
#[derive(Debug, Default)]
struct RevisionTimes(VecDeque<(u64, Timestamp)>);

impl RevisionTimes {
    /// Records the time of the next revision.
    fn record(&mut self, revision: u64, now: Timestamp) {
        // A clock that was set back is followed.
        let is_due = |(_, last): &(u64, Timestamp)| now.duration_since(*last).abs() >= INTERVAL;
        if self.0.back().is_none_or(is_due) {
            if self.0.len() == MAX_RECORDED {
                self.0.pop_front();
            }
            self.0.push_back((revision, now));
        }
    }

    /// Time of the first recorded revision after this one.
    fn first_after(&self, revision: u64) -> Option<Timestamp> {
        let next = self
            .0
            .partition_point(|(recorded, _)| *recorded <= revision);
        self.0.get(next).map(|(_, time)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).expect("a small number")
    }

    #[test]
    fn the_first_revision_of_each_interval_is_recorded() {
        let mut times = RevisionTimes::default();
        assert_eq!(times.first_after(0), None);
        for revision in 1..=10 {
            times.record(revision, at(i64::try_from(revision).expect("small") * 50));
        }
        let expected = [(0, 50), (1, 150), (2, 150), (3, 250), (8, 450)];
        for (revision, time) in expected {
            assert_eq!(times.first_after(revision), Some(at(time)), "{revision}");
        }
        assert_eq!(times.first_after(9), None);
        times.record(11, at(0));
        assert_eq!(times.first_after(9), Some(at(0)), "the clock was set back");
    }

    #[test]
    fn the_number_of_recorded_revisions_is_bounded() {
        let mut times = RevisionTimes::default();
        for revision in 1..=2 * MAX_RECORDED {
            let second = i64::try_from(revision).expect("small");
            times.record(revision as u64, at(1000 * second));
        }
        assert_eq!(times.0.len(), MAX_RECORDED);
        let first = i64::try_from(MAX_RECORDED).expect("small") + 1;
        assert_eq!(times.first_after(0), Some(at(1000 * first)));
    }
}
