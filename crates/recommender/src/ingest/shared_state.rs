//! The state shared by the tasks of this process, with notifications of changes.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use view::ObjectKey;

use vertical::recommender_state::RecommenderState;

/// The state, shared by the task that updates it and those that decide. Clones share it.
#[derive(Clone)]
pub(crate) struct SharedState {
    state: Arc<Mutex<RecommenderState>>,
    /// Held while waiting for the state, which makes the lock fair.
    fairness: Arc<Mutex<()>>,
    revision: watch::Sender<u64>,
    rounds: watch::Sender<u64>,
    /// Objects that must not wait for the next resync.
    urgent: watch::Sender<BTreeSet<ObjectKey>>,
    /// Objects whose checkpoints must not wait for their refresh.
    due_checkpoints: Arc<Mutex<BTreeSet<ObjectKey>>>,
}

pub(crate) struct Urgent {
    sender: watch::Sender<BTreeSet<ObjectKey>>,
    receiver: watch::Receiver<BTreeSet<ObjectKey>>,
}

impl SharedState {
    pub(crate) fn new(state: RecommenderState) -> Self {
        Self {
            state: Arc::new(Mutex::new(state)),
            fairness: Arc::default(),
            revision: watch::Sender::new(0),
            rounds: watch::Sender::new(0),
            urgent: watch::Sender::default(),
            due_checkpoints: Arc::default(),
        }
    }

    /// Locks the state. A waiting task gets the lock before the last holder gets it again, so work
    /// in batches lets other tasks in between. The state is consistent after every step, so a panic
    /// elsewhere leaves nothing half-done.
    pub(crate) fn lock(&self) -> MutexGuard<'_, RecommenderState> {
        let _fair = self.fairness.lock();
        self.state.lock()
    }

    /// Notified after changes.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Notified after rounds of usage.
    pub(crate) fn rounds(&self) -> watch::Receiver<u64> {
        self.rounds.subscribe()
    }

    /// Makes the checkpoints of objects due in the next round.
    pub(crate) fn checkpoints_are_due(&self, objects: impl IntoIterator<Item = ObjectKey>) {
        self.due_checkpoints.lock().extend(objects);
    }

    pub(crate) fn take_due_checkpoints(&self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut *self.due_checkpoints.lock())
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

    /// Receives the urgent objects from now on.
    pub(crate) fn urgent(&self) -> Urgent {
        Urgent {
            sender: self.urgent.clone(),
            receiver: self.urgent.subscribe(),
        }
    }

    /// Whether a task decides, which is only so in the leader.
    pub(super) fn is_leading(&self) -> bool {
        self.urgent.receiver_count() > 0
    }

    /// Enqueues urgent objects. On a standby they are dropped: a new leader begins with a resync.
    pub(super) fn enqueue_urgent(&self, objects: BTreeSet<ObjectKey>) {
        if self.is_leading() && !objects.is_empty() {
            self.urgent.send_modify(|urgent| urgent.extend(objects));
        }
    }
}

impl Urgent {
    /// Waits for urgent objects and takes them. Cancel safe.
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
    use vertical::recommender_state::RecommenderConfig;

    fn shared() -> SharedState {
        let recommender = RecommenderConfig {
            recommender_name: String::new(),
            memory_saver: false,
            native_sidecars: false,
            usage_interval: Duration::from_secs(1),
        };
        SharedState::new(
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
        let shared = shared();
        let mut urgent = shared.urgent();
        assert_eq!(urgent.next().now_or_never(), None);
        shared.enqueue_urgent(objects(&["web"]));
        shared.enqueue_urgent(objects(&["web", "api"]));
        assert_eq!(urgent.next().now_or_never(), Some(objects(&["api", "web"])));
        assert_eq!(urgent.next().now_or_never(), None);
    }

    #[test]
    fn a_stand_by_keeps_nothing_for_later() {
        let shared = shared();
        shared.enqueue_urgent(objects(&["web"]));
        assert_eq!(shared.urgent().next().now_or_never(), None);
    }

    #[test]
    fn work_in_portions_lets_others_in_between() {
        let shared = shared();
        let held = shared.lock();
        let (other, (entered, enters)) = (shared.clone(), std::sync::mpsc::channel());
        let waits = std::thread::spawn(move || {
            let _state = other.lock();
            entered.send(()).expect("the receiver is there");
        });
        while shared.fairness.try_lock().is_some() {
            std::thread::yield_now();
        }
        drop(held);
        let _again = shared.lock();
        assert_eq!(enters.try_recv(), Ok(()), "the other one was first");
        waits.join().expect("it ends well");
    }
}
