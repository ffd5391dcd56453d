//! Publishes values per leader term.
//!
//! Values outlive a term, but readers are served only within one, and only after its first reset.
//! Otherwise a new leader without decisions would look like one that recommends nothing.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use prometheus::IntCounter;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::recommendation::Recommendation;
use crate::topic::Topic;
use crate::versioned_store::{Key, VersionedStore};

const MAX_DELETIONS: usize = 10_000;
/// Maximum size of a value's message in bytes. Readers refuse above 4 MiB; values are not divided.
const MAX_VALUE_BYTES: usize = 1 << 20;

/// Published values of one topic. Clones share them.
#[derive(Debug, Clone)]
pub struct Publisher<V: Topic = Recommendation> {
    store: Arc<Mutex<VersionedStore<Arc<V>>>>,
    published: watch::Sender<Published>,
    oversized: Option<IntCounter>,
}

/// Publication state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Published {
    /// The term in which readers are served, if any.
    pub(crate) term: Option<u64>,
    pub(crate) revision: u64,
}

impl<V: Topic> Default for Publisher<V> {
    fn default() -> Self {
        let store = Arc::new(Mutex::new(VersionedStore::new(MAX_DELETIONS)));
        Self {
            store,
            published: watch::Sender::default(),
            oversized: None,
        }
    }
}

impl<V: Topic> Publisher<V> {
    /// Counts oversized values in these metrics.
    #[must_use]
    pub fn with_metrics(self, metrics: &Metrics) -> Self {
        Self {
            oversized: Some(metrics.oversized.clone()),
            ..self
        }
    }

    /// Begins a term; later terms have greater numbers. Readers are served from the first
    /// [`LeaderTerm::reset`] until the term is dropped.
    pub fn begin(&self, number: u64) -> LeaderTerm<V> {
        LeaderTerm {
            publisher: self.clone(),
            number,
        }
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn published(&self) -> watch::Receiver<Published> {
        self.published.subscribe()
    }

    /// Consistent even after a panic: every change leaves the store complete.
    pub(crate) fn lock(&self) -> MutexGuard<'_, VersionedStore<Arc<V>>> {
        self.store.lock()
    }

    /// Whether a value fits a message. An oversized value is counted and left out; readers use the
    /// status of its object.
    fn fits(&self, value: &V) -> bool {
        let bytes = value.size();
        let fits = bytes <= MAX_VALUE_BYTES;
        if !fits {
            tracing::warn!(
                uid = value.uid(),
                kind = V::NOUN,
                bytes,
                limit = MAX_VALUE_BYTES,
                "value too large for the feed"
            );
            if let Some(oversized) = &self.oversized {
                oversized.inc();
            }
        }
        fits
    }

    fn publish(&self, term: impl FnOnce(Option<u64>) -> Option<u64>, revision: u64) {
        self.published.send_if_modified(|published| {
            let now = Published {
                term: term(published.term),
                revision,
            };
            let changed = *published != now;
            *published = now;
            changed
        });
    }
}

/// One leader term. Dropping it disconnects the readers.
#[derive(Debug)]
pub struct LeaderTerm<V: Topic = Recommendation> {
    publisher: Publisher<V>,
    number: u64,
}

impl<V: Topic> LeaderTerm<V> {
    /// Replaces all values, leaving out those above 1 MiB. Equal values notify no reader.
    pub fn reset(&self, values: impl IntoIterator<Item = V>, now: Timestamp) {
        let values = values.into_iter();
        let values = values.filter(|value| self.publisher.fits(value));
        let entry = |value: V| (Key::from(value.uid()), Arc::new(value));
        let values: BTreeMap<Key, _> = values.map(entry).collect();
        self.change(|_| Some(self.number), |store| store.reset(values, now));
    }

    /// Publishes one value. A value above 1 MiB deletes its predecessor.
    pub fn apply(&self, value: V, now: Timestamp) {
        if !self.publisher.fits(&value) {
            return self.delete(value.uid(), now);
        }
        let uid = value.uid().to_owned();
        self.change(|term| term, |store| store.apply(&uid, Arc::new(value), now));
    }

    pub fn delete(&self, uid: &str, now: Timestamp) {
        self.change(|term| term, |store| store.delete(uid, now));
    }

    /// Changes the store, then notifies the readers of this term.
    fn change(
        &self,
        term: impl FnOnce(Option<u64>) -> Option<u64>,
        change: impl FnOnce(&mut VersionedStore<Arc<V>>),
    ) {
        let revision = {
            let mut store = self.publisher.lock();
            change(&mut store);
            store.revision()
        };
        self.publisher.publish(term, revision);
    }
}

impl<V: Topic> Drop for LeaderTerm<V> {
    fn drop(&mut self) {
        self.publisher.published.send_if_modified(|published| {
            let is_ours = published.term == Some(self.number);
            if is_ours {
                published.term = None;
            }
            is_ours
        });
    }
}
