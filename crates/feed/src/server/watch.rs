//! The stream of one reader. It holds a place on the board and no queue: the transport asks for the
//! next message only when the reader has room for it.

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

use crate::board::{Change, Item, Place, Step};
use crate::metrics::Metrics;
use crate::publisher::{Publisher, Told};
use crate::topic::{self, Topic};

/// The most of one message. gRPC refuses messages above 4 MiB by default.
const MAX_ENTRIES: usize = 256;
const MAX_BYTES: usize = 256 << 10;

pub(super) fn not_leading() -> Status {
    Status::unavailable("not the leader; see the Lease for who is")
}

/// One reader.
pub(super) struct Watch<V: Topic> {
    pub(super) publisher: Publisher<V>,
    pub(super) term: u64,
    pub(super) told: watch::Receiver<Told>,
    pub(super) metrics: Metrics,
    pub(super) shutdown: CancellationToken,
    pub(super) ends_at: Instant,
    pub(super) _counted: Counted,
}

/// Counts a reader as long as it lasts.
pub(super) struct Counted {
    readers: IntGauge,
    _permit: OwnedSemaphorePermit,
}

impl Counted {
    pub(super) fn new(readers: IntGauge, permit: OwnedSemaphorePermit) -> Self {
        readers.inc();
        Self {
            readers,
            _permit: permit,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.readers.dec();
    }
}

/// How a wait ended.
enum Woken {
    /// There may be news.
    News,
    /// The stream has lasted long enough, without an error.
    Aged,
    /// This process no longer leads, or goes away.
    Ended,
}

impl<V: Topic> Watch<V> {
    /// Waits for news, or for the end.
    async fn wait(&mut self) -> Woken {
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => Woken::Ended,
            () = sleep_until(self.ends_at) => Woken::Aged,
            changed = self.told.changed() => if changed.is_ok() { Woken::News } else { Woken::Ended },
        }
    }

    /// Whether the term in which the stream began still lasts.
    fn leads(&mut self) -> bool {
        self.told.borrow_and_update().term == Some(self.term) && !self.shutdown.is_cancelled()
    }

    /// The messages of this reader, until the term or the stream's time is over.
    pub(super) fn messages(self) -> impl Stream<Item = Result<V::Update, Status>> {
        unfold(Some((self, Place::default())), async |state| {
            let (mut watch, mut place) = state?;
            loop {
                if !watch.leads() {
                    return Some((Err(not_leading()), None));
                }
                if let Some(step) = watch.step(&mut place) {
                    return Some((Ok(watch.update(step)), Some((watch, place))));
                }
                match watch.wait().await {
                    Woken::News => {}
                    Woken::Aged => return None,
                    Woken::Ended => return Some((Err(not_leading()), None)),
                }
            }
        })
    }

    fn step(&self, place: &mut Place) -> Option<Step<Arc<V>>> {
        let (mut entries, mut bytes) = (0, 0);
        let fits = |value: &Arc<V>| {
            entries += 1;
            bytes += value.size();
            entries <= MAX_ENTRIES && bytes <= MAX_BYTES
        };
        self.publisher.lock().next(place, fits)
    }

    fn update(&self, step: Step<Arc<V>>) -> V::Update {
        let Step {
            change,
            coalesced,
            oldest,
        } = step;
        let (kind, change) = match change {
            Change::Reset {
                items,
                first,
                complete,
            } => (
                "reset",
                topic::Change::Reset {
                    values: messages(items),
                    first,
                    complete,
                },
            ),
            Change::Apply(items) => ("apply", topic::Change::Apply(messages(items))),
            Change::Delete(keys) => (
                "delete",
                topic::Change::Delete(keys.iter().map(ToString::to_string).collect()),
            ),
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
