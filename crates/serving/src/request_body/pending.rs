//! Limits requests whose bodies have not arrived, by number and by bytes. When there are too many, drops
//! the oldest; when memory is short, those that hold most. So slow senders only hurt themselves.
//!
//! A concurrency limit with load shedding (`tower::limit`, `tower::load_shed`) would refuse the
//! newest request instead: a client that never sends its bodies would block the API server. The
//! test `unfinished_bodies_do_not_block_other_reviews` of the webhook shows it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The requests whose bodies have not arrived. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct PendingBodies {
    max: usize,
    requests: Arc<Mutex<Requests>>,
}

#[derive(Debug, Default)]
struct Requests {
    next_id: u64,
    /// By age, oldest first.
    pending: BTreeMap<u64, Pending>,
}

#[derive(Debug)]
struct Pending {
    bytes: usize,
    dropped: CancellationToken,
}

/// One request; no longer pending when dropped.
pub(super) struct Entry<'a> {
    requests: &'a Mutex<Requests>,
    id: u64,
    dropped: CancellationToken,
}

impl PendingBodies {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            requests: Arc::default(),
        }
    }

    /// Adds a request, in place of the oldest one if it has to wait.
    pub(super) fn insert(&self) -> Entry<'_> {
        let mut requests = self.requests.lock();
        let (id, dropped) = (requests.next_id, CancellationToken::new());
        requests.next_id = id.wrapping_add(1);
        let pending = Pending {
            bytes: 0,
            dropped: dropped.clone(),
        };
        requests.pending.insert(id, pending);
        Entry {
            requests: &self.requests,
            id,
            dropped,
        }
    }

    /// Waits for a body; `None` if the request was dropped for another one.
    pub(super) async fn wait<T>(
        &self,
        entry: &Entry<'_>,
        body: impl Future<Output = T>,
    ) -> Option<T> {
        {
            let mut requests = self.requests.lock();
            if requests.pending.len() > self.max
                && let Some((_, oldest)) = requests.pending.pop_first()
            {
                oldest.dropped.cancel();
            }
        }
        entry.dropped.run_until_cancelled(body).await
    }
}

impl Entry<'_> {
    /// Counts bytes that have arrived.
    pub(super) fn add(&self, bytes: usize) {
        if let Some(pending) = self.requests.lock().pending.get_mut(&self.id) {
            pending.bytes += bytes;
        }
    }

    /// Drops those requests that hold most until they make room for this many bytes. Whether there
    /// are enough that hold more than this one.
    pub(super) fn make_room(&self, bytes: usize) -> bool {
        let mut requests = self.requests.lock();
        let own = requests
            .pending
            .get(&self.id)
            .map_or(0, |pending| pending.bytes);
        let mut room = 0;
        while room < bytes {
            let others = requests.pending.iter().filter(|(id, _)| **id != self.id);
            let largest = others.max_by_key(|(id, pending)| (pending.bytes, Reverse(**id)));
            let Some(id) = largest
                .filter(|(_, pending)| pending.bytes > own)
                .map(|(id, _)| *id)
            else {
                return false;
            };
            if let Some(largest) = requests.pending.remove(&id) {
                room += largest.bytes;
                largest.dropped.cancel();
            }
        }
        true
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.requests.lock().pending.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_oldest_request_is_dropped_when_full() {
        let bodies = PendingBodies::new(2);
        let entries = [(); 3].map(|()| bodies.insert());
        let mut open: Vec<_> = entries
            .iter()
            .map(|entry| Box::pin(bodies.wait(entry, pending::<()>())))
            .collect();
        let ended: Vec<bool> = open
            .iter_mut()
            .map(|wait| wait.as_mut().now_or_never().is_some())
            .collect();
        assert_eq!(ended, [true, false, false]);
        drop(open);
        drop(entries);
        let entry = bodies.insert();
        let all = bodies.wait(&entry, ready("all")).now_or_never();
        assert_eq!(all, Some(Some("all")));
        drop(entry);
        assert!(bodies.requests.lock().pending.is_empty());
    }

    #[test]
    fn the_largest_requests_make_room() {
        let bodies = PendingBodies::new(9);
        let entries = [5, 7, 7, 6].map(|bytes| {
            let entry = bodies.insert();
            entry.add(bytes);
            entry
        });
        let dropped = || -> Vec<bool> {
            entries
                .iter()
                .map(|entry| entry.dropped.is_cancelled())
                .collect()
        };
        // Of two that hold as much, the older one goes.
        assert!(entries[0].make_room(7));
        assert_eq!(dropped(), [false, true, false, false]);
        assert!(entries[0].make_room(13));
        assert_eq!(dropped(), [false, true, true, true]);
        assert!(!entries[0].make_room(1), "it holds most itself");
    }
}
