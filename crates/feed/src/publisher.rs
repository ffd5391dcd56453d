//! The leader's side: what it tells, and for which term of leadership.
//!
//! Values outlive a term, but readers are served only within one, and only once its holder has told everything: a new
//! leader that has decided nothing yet must not look like one that recommends nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::board::{Board, Key};
use crate::recommendation::Recommendation;
use crate::topic::Topic;

/// So many deletions are remembered for readers that are behind.
const MAX_DELETIONS: usize = 10_000;

/// What is told in one stream. Clones share it.
#[derive(Debug, Clone)]
pub struct Publisher<V: Topic = Recommendation> {
    board: Arc<Mutex<Board<Arc<V>>>>,
    told: watch::Sender<Told>,
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
        Self { board: Arc::new(Mutex::new(Board::new(MAX_DELETIONS))), told: watch::Sender::default() }
    }
}

impl<V: Topic> Publisher<V> {
    /// Begins a term; later ones have greater numbers. Readers are served from the first [`Term::reset`] until it is dropped.
    pub fn begin(&self, number: u64) -> Term<V> {
        Term { publisher: self.clone(), number }
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

    fn tell(&self, term: impl FnOnce(Option<u64>) -> Option<u64>, revision: u64) {
        self.told.send_if_modified(|told| {
            let now = Told { term: term(told.term), revision };
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
    /// Makes these the only values. Equal ones wake nobody.
    pub fn reset(&self, values: impl IntoIterator<Item = V>, now: Timestamp) {
        let values: BTreeMap<Key, _> =
            values.into_iter().map(|value| (Key::from(value.uid()), Arc::new(value))).collect();
        let revision = {
            let mut board = self.publisher.lock();
            board.reset(values, now);
            board.revision()
        };
        self.publisher.tell(|_| Some(self.number), revision);
    }

    /// Tells one value.
    pub fn apply(&self, value: V, now: Timestamp) {
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
