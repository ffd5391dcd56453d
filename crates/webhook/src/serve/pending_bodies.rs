//! Limits requests whose bodies have not arrived. When full, drops the oldest, so slow senders only
//! hurt themselves.
//!
//! A concurrency limit with load shedding (`tower::limit`, `tower::load_shed`) would refuse the
//! newest request instead: a client that never sends its bodies would block the API server. The
//! test `unfinished_bodies_do_not_block_other_reviews` in `serve.rs` shows it.

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
    /// Cancels each request, oldest first.
    pending: BTreeMap<u64, CancellationToken>,
}

/// The entry of one request; removed when dropped.
struct Entry<'a> {
    requests: &'a Mutex<Requests>,
    id: u64,
    dropped: CancellationToken,
}

impl PendingBodies {
    /// At most `max` requests.
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            requests: Arc::default(),
        }
    }

    /// Waits for a body; `None` if the request was dropped for a newer one.
    pub(super) async fn wait<T>(&self, body: impl Future<Output = T>) -> Option<T> {
        let entry = self.insert();
        entry.dropped.run_until_cancelled(body).await
    }

    fn insert(&self) -> Entry<'_> {
        let mut requests = self.requests.lock();
        if requests.pending.len() >= self.max
            && let Some((_, oldest)) = requests.pending.pop_first()
        {
            oldest.cancel();
        }
        let (id, dropped) = (requests.next_id, CancellationToken::new());
        requests.next_id = id.wrapping_add(1);
        requests.pending.insert(id, dropped.clone());
        Entry {
            requests: &self.requests,
            id,
            dropped,
        }
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
        let mut open: Vec<_> = (0..3)
            .map(|_| Box::pin(bodies.wait(pending::<()>())))
            .collect();
        let ended: Vec<bool> = open
            .iter_mut()
            .map(|wait| wait.now_or_never().is_some())
            .collect();
        assert_eq!(
            ended,
            [false, false, false],
            "the first one is dropped when it is polled again"
        );
        assert_eq!(open.remove(0).now_or_never(), Some(None));
        assert_eq!(open[0].as_mut().now_or_never(), None, "the others go on");
        drop(open);
        assert_eq!(bodies.wait(ready("all")).now_or_never(), Some(Some("all")));
        assert!(bodies.requests.lock().pending.is_empty());
    }
}
