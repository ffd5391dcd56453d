//! The state as the tasks of one process share it, and how they learn of its changes.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use view::ObjectKey;

use vertical::state::RecommenderState;

/// The state, shared by the task that keeps it current and those that decide from it. Clones share
/// it.
#[derive(Clone)]
pub(crate) struct Shared {
    state: Arc<Mutex<RecommenderState>>,
    /// Who waits for the state.
    turn: Arc<Mutex<()>>,
    /// Counts the changes.
    revision: watch::Sender<u64>,
    /// Counts the rounds of usage.
    rounds: watch::Sender<u64>,
    /// Objects that must not wait for the next look at all of them.
    urgent: watch::Sender<BTreeSet<ObjectKey>>,
}

/// Told of objects that cannot wait.
pub(crate) struct Urgent {
    sender: watch::Sender<BTreeSet<ObjectKey>>,
    receiver: watch::Receiver<BTreeSet<ObjectKey>>,
}

impl Shared {
    pub(crate) fn new(state: RecommenderState) -> Self {
        Self {
            state: Arc::new(Mutex::new(state)),
            turn: Arc::default(),
            revision: watch::Sender::new(0),
            rounds: watch::Sender::new(0),
            urgent: watch::Sender::default(),
        }
    }

    /// Whoever waits gets the state before one that had it and wants it again, so that long work
    /// done in portions lets others in between. Every step leaves the state whole, so a panic
    /// elsewhere leaves nothing half-done.
    pub(crate) fn lock(&self) -> MutexGuard<'_, RecommenderState> {
        let _turn = self.turn.lock();
        self.state.lock()
    }

    /// Wakes after changes.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Wakes after rounds of usage.
    pub(crate) fn rounds(&self) -> watch::Receiver<u64> {
        self.rounds.subscribe()
    }

    pub(crate) fn changed(&self) {
        self.revision
            .send_modify(|revision| *revision = revision.wrapping_add(1));
    }

    pub(super) fn round_done(&self) {
        self.changed();
        self.rounds
            .send_modify(|round| *round = round.wrapping_add(1));
    }

    /// What is told of objects that cannot wait, from now on.
    pub(crate) fn urgent(&self) -> Urgent {
        Urgent {
            sender: self.urgent.clone(),
            receiver: self.urgent.subscribe(),
        }
    }

    /// Whether somebody decides, which nobody does on a stand-by.
    pub(super) fn is_decided(&self) -> bool {
        self.urgent.receiver_count() > 0
    }

    /// These objects cannot wait. Where nobody decides, which is on a stand-by, nothing is kept for
    /// later: a leader begins with a look at all objects.
    pub(super) fn hurry(&self, objects: BTreeSet<ObjectKey>) {
        if self.is_decided() && !objects.is_empty() {
            self.urgent.send_modify(|urgent| urgent.extend(objects));
        }
    }
}

impl Urgent {
    /// The objects that cannot wait, as soon as there are some. Nothing is lost when it is dropped
    /// while it waits.
    pub(crate) async fn next(&mut self) -> BTreeSet<ObjectKey> {
        // The sender is held here, so it is there.
        let _ = self.receiver.wait_for(|urgent| !urgent.is_empty()).await;
        let mut taken = BTreeSet::new();
        self.sender.send_if_modified(|urgent| {
            taken = std::mem::take(urgent);
            false
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use sizing::Config;

    use super::*;
    use vertical::state::RecommenderConfig;

    fn known() -> Shared {
        let recommender = RecommenderConfig {
            recommender_name: String::new(),
            memory_saver: false,
            native_sidecars: false,
            usage_interval: Duration::from_secs(1),
        };
        Shared::new(
            RecommenderState::new(recommender, Config::default()).expect("defaults are valid"),
        )
    }

    fn objects(names: &[&str]) -> BTreeSet<ObjectKey> {
        names
            .iter()
            .map(|name| ObjectKey::new("shop", *name))
            .collect()
    }

    #[test]
    fn what_cannot_wait_is_told_once_and_together() {
        let known = known();
        let mut urgent = known.urgent();
        assert_eq!(urgent.next().now_or_never(), None);
        known.hurry(objects(&["web"]));
        known.hurry(objects(&["web", "api"]));
        assert_eq!(urgent.next().now_or_never(), Some(objects(&["api", "web"])));
        assert_eq!(urgent.next().now_or_never(), None);
    }

    #[test]
    fn a_stand_by_keeps_nothing_for_later() {
        let known = known();
        known.hurry(objects(&["web"]));
        assert_eq!(known.urgent().next().now_or_never(), None);
    }

    #[test]
    fn work_in_portions_lets_others_in_between() {
        let known = known();
        let held = known.lock();
        let (other, (entered, enters)) = (known.clone(), std::sync::mpsc::channel());
        let waits = std::thread::spawn(move || {
            let _state = other.lock();
            entered.send(()).expect("somebody listens");
        });
        while known.turn.try_lock().is_some() {
            std::thread::yield_now();
        }
        drop(held);
        let _again = known.lock();
        assert_eq!(enters.try_recv(), Ok(()), "the other one was first");
        waits.join().expect("it ends well");
    }
}
