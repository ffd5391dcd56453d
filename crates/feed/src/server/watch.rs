//! Stream of one reader. It has a cursor and no queue: the transport requests the next message only
//! when the reader has room for it.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::stream::unfold;
use jiff::Timestamp;
use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::metrics::Metrics;
use crate::publisher::{Published, Publisher};
use crate::topic::{Change, Topic};
use crate::versioned_store::{Cursor, Item, Step};

/// Limits of one message. gRPC refuses messages above 4 MiB by default.
const MAX_ENTRIES: usize = 256;
const MAX_BYTES: usize = 256 << 10;

pub(super) fn not_leading() -> Status {
    Status::unavailable("not the leader: the Lease names the leader")
}

pub(super) struct Watch<V: Topic> {
    pub(super) publisher: Publisher<V>,
    pub(super) term: u64,
    pub(super) state: watch::Receiver<Published>,
    pub(super) metrics: Metrics,
    pub(super) shutdown: CancellationToken,
    pub(super) ends_at: Instant,
    pub(super) _guard: ReaderGuard,
}

/// Counts a reader while it exists.
pub(super) struct ReaderGuard {
    readers: IntGauge,
    _permit: OwnedSemaphorePermit,
}

impl ReaderGuard {
    pub(super) fn new(readers: IntGauge, permit: OwnedSemaphorePermit) -> Self {
        readers.inc();
        Self {
            readers,
            _permit: permit,
        }
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        self.readers.dec();
    }
}

enum Wakeup {
    /// The published state may have changed.
    Changed,
    /// The stream reached its maximum age.
    Expired,
    /// This process is no longer the leader, or shuts down.
    NotLeading,
}

impl<V: Topic> Watch<V> {
    /// Waits for a change or the end of the stream.
    async fn wait(&mut self) -> Wakeup {
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => Wakeup::NotLeading,
            () = sleep_until(self.ends_at) => Wakeup::Expired,
            changed = self.state.changed() => if changed.is_ok() { Wakeup::Changed } else { Wakeup::NotLeading },
        }
    }

    /// Whether the term of the stream is still current.
    fn leads(&mut self) -> bool {
        self.state.borrow_and_update().term == Some(self.term) && !self.shutdown.is_cancelled()
    }

    /// The messages of this reader until its term or lifetime ends.
    pub(super) fn messages(self) -> impl Stream<Item = Result<V::Update, Status>> {
        unfold(Some((self, Cursor::default())), async |state| {
            let (mut watch, mut cursor) = state?;
            loop {
                if !watch.leads() {
                    return Some((Err(not_leading()), None));
                }
                if let Some(step) = watch.step(&mut cursor) {
                    return Some((Ok(watch.update(step)), Some((watch, cursor))));
                }
                match watch.wait().await {
                    Wakeup::Changed => {}
                    Wakeup::Expired => return None,
                    Wakeup::NotLeading => return Some((Err(not_leading()), None)),
                }
            }
        })
    }

    fn step(&self, cursor: &mut Cursor) -> Option<Step<Arc<V>>> {
        let (mut entries, mut bytes) = (0, 0);
        let fits = |value: &Arc<V>| {
            entries += 1;
            bytes += value.size();
            entries <= MAX_ENTRIES && bytes <= MAX_BYTES
        };
        self.publisher.lock().next(cursor, fits)
    }

    fn update(&self, step: Step<Arc<V>>) -> V::Update {
        let Step {
            change,
            coalesced,
            oldest,
        } = step;
        let (kind, change) = match change {
            Change::Reset {
                values,
                first,
                complete,
            } => {
                let values = messages(values);
                let reset = Change::Reset {
                    values,
                    first,
                    complete,
                };
                ("reset", reset)
            }
            Change::Apply(values) => ("apply", Change::Apply(messages(values))),
            Change::Delete(uids) => ("delete", Change::Delete(uids)),
        };
        let waited = |since: Timestamp| {
            Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default()
        };
        self.metrics.sent(kind, coalesced, oldest.map(waited));
        V::pack(self.term, change)
    }
}

fn messages<V: Topic>(items: Vec<Item<Arc<V>>>) -> Vec<V::Message> {
    items
        .into_iter()
        .map(|item| item.value.to_message(item.revision, item.changed_at))
        .collect()
}
