//! The leader's side: what it tells, and for which term of leadership.
//!
//! Values outlive a term, but readers are served only within one, and only once its holder has told
//! everything: a new leader that has decided nothing yet must not look like one that recommends
//! nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use prometheus::IntCounter;
use tokio::sync::watch;

use crate::board::{Board, Key};
use crate::metrics::Metrics;
use crate::recommendation::Recommendation;
use crate::topic::Topic;

/// So many deletions are remembered for readers that are behind.
const MAX_DELETIONS: usize = 10_000;
/// The largest value, in bytes of its message. Readers refuse messages above 4 MiB, and a value is
/// never divided.
const MAX_VALUE_BYTES: usize = 1 << 20;

/// What is told in one stream. Clones share it.
#[derive(Debug, Clone)]
pub struct Publisher<V: Topic = Recommendation> {
    board: Arc<Mutex<Board<Arc<V>>>>,
    told: watch::Sender<Told>,
    /// Counts values that are too large.
    oversized: Option<IntCounter>,
}

/// How far the telling is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// The term in which readers are served, if they are.
    pub(crate) term: Option<u64>,
    /// The latest change.
    pub(crate) revision: u64,
}

impl<V: Topic> Default for Publisher<V> {
    fn default() -> Self {
        let board = Arc::new(Mutex::new(Board::new(MAX_DELETIONS)));
        Self {
            board,
            told: watch::Sender::default(),
            oversized: None,
        }
    }
}

impl<V: Topic> Publisher<V> {
    /// Counts values that are too large to be published in these metrics.
    #[must_use]
    pub fn counting(self, metrics: &Metrics) -> Self {
        Self {
            oversized: Some(metrics.oversized.clone()),
            ..self
        }
    }

    /// Begins a term; later ones have greater numbers. Readers are served from the first
    /// [`Term::reset`] until it is dropped.
    pub fn begin(&self, number: u64) -> Term<V> {
        Term {
            publisher: self.clone(),
            number,
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn told(&self) -> watch::Receiver<Told> {
        self.told.subscribe()
    }

    /// Every change leaves the board whole.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Board<Arc<V>>> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a value fits a message. One that does not is counted and left out: readers go by the
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

    fn tell(&self, term: impl FnOnce(Option<u64>) -> Option<u64>, revision: u64) {
        self.told.send_if_modified(|told| {
            let now = Told {
                term: term(told.term),
                revision,
            };
            let changed = *told != now;
            *told = now;
            changed
        });
    }
}

/// One term of leadership. Readers are sent away when it is dropped.
#[derive(Debug)]
pub struct Term<V: Topic = Recommendation> {
    publisher: Publisher<V>,
    number: u64,
}

impl<V: Topic> Term<V> {
    /// Makes these the only values, except those above 1 MiB. Equal ones wake no reader.
    pub fn reset(&self, values: impl IntoIterator<Item = V>, now: Timestamp) {
        let values = values
            .into_iter()
            .filter(|value| self.publisher.fits(value));
        let values: BTreeMap<Key, _> = values
            .map(|value| (Key::from(value.uid()), Arc::new(value)))
            .collect();
        let revision = {
            let mut board = self.publisher.lock();
            board.reset(values, now);
            board.revision()
        };
        self.publisher.tell(|_| Some(self.number), revision);
    }

    /// Publishes one value. A value above 1 MiB removes the one before it.
    pub fn apply(&self, value: V, now: Timestamp) {
        if !self.publisher.fits(&value) {
            return self.delete(value.uid(), now);
        }
        let revision = {
            let mut board = self.publisher.lock();
            let key = value.uid().to_owned();
            board.apply(&key, Arc::new(value), now);
            board.revision()
        };
        self.publisher.tell(|term| term, revision);
    }

    /// Tells that an object is gone.
    pub fn delete(&self, uid: &str, now: Timestamp) {
        let revision = {
            let mut board = self.publisher.lock();
            board.delete(uid, now);
            board.revision()
        };
        self.publisher.tell(|term| term, revision);
    }
}

impl<V: Topic> Drop for Term<V> {
    fn drop(&mut self) {
        self.publisher.told.send_if_modified(|told| {
            let is_ours = told.term == Some(self.number);
            if is_ours {
                told.term = None;
            }
            is_ours
        });
    }
}
