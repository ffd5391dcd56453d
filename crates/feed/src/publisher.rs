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

/// So many deletions are remembered for readers that are behind.
const MAX_DELETIONS: usize = 10_000;

pub(crate) type Recommendations = Board<Arc<Recommendation>>;

/// What is told. Clones share it.
#[derive(Debug, Clone)]
pub struct Publisher {
    board: Arc<Mutex<Recommendations>>,
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

impl Default for Publisher {
    fn default() -> Self {
        Self { board: Arc::new(Mutex::new(Board::new(MAX_DELETIONS))), told: watch::Sender::default() }
    }
}

impl Publisher {
    /// Begins a term; later ones have greater numbers. Readers are served from the first [`Term::reset`] until it is dropped.
    pub fn begin(&self, number: u64) -> Term {
        Term { publisher: self.clone(), number }
    }

    /// How many recommendations there are.
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
    pub(crate) fn lock(&self) -> MutexGuard<'_, Recommendations> {
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
pub struct Term {
    publisher: Publisher,
    number: u64,
}

impl Term {
    /// Makes these the only recommendations. Equal ones wake nobody.
    pub fn reset(&self, recommendations: impl IntoIterator<Item = Recommendation>, now: Timestamp) {
        let values: BTreeMap<Key, _> = recommendations
            .into_iter()
            .map(|recommendation| (Key::from(recommendation.uid.as_str()), Arc::new(recommendation)))
            .collect();
        let revision = {
            let mut board = self.publisher.lock();
            board.reset(values, now);
            board.revision()
        };
        self.publisher.tell(|_| Some(self.number), revision);
    }

    /// Tells one recommendation.
    pub fn apply(&self, recommendation: Recommendation, now: Timestamp) {
        let revision = {
            let mut board = self.publisher.lock();
            let key = recommendation.uid.clone();
            board.apply(&key, Arc::new(recommendation), now);
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

impl Drop for Term {
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
