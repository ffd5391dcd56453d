//! Concurrent writes of statuses, for one term of leadership.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use runtime::WriteOutcome;
use tokio::task::JoinSet;
use vertical::recommender_state::Decision;
use vertical::write_queue::{Priority, WriteQueue};
use view::ObjectKey;

use super::StatusWriter;

pub(crate) struct StatusWrites {
    writer: StatusWriter,
    queue: WriteQueue,
    started: Instant,
    running: JoinSet<(ObjectKey, WriteOutcome)>,
}

impl StatusWrites {
    /// At most `workers` of each priority at the same time. Changes of bounds alone are written once
    /// per `refresh_interval`.
    pub(crate) fn new(writer: StatusWriter, workers: usize, refresh_interval: Duration) -> Self {
        Self {
            writer,
            queue: WriteQueue::new(workers, refresh_interval),
            started: Instant::now(),
            running: JoinSet::new(),
        }
    }

    /// Writes a decision when it is its turn, unless it changes nothing, or bounds alone before
    /// these are due.
    pub(crate) fn put(&mut self, decision: Arc<Decision>, priority: Priority) {
        self.queue.put(decision, priority, self.started.elapsed());
        self.start();
    }

    /// Drops the times of objects that are not kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&ObjectKey) -> bool) {
        self.queue.retain(is_kept);
    }

    /// The outcome of the next write that ends; waits for ever without one.
    pub(crate) async fn ended(&mut self) -> WriteOutcome {
        let Some(ended) = self.running.join_next().await else {
            return std::future::pending().await;
        };
        let (key, outcome) = ended.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        self.queue.done(&key);
        self.start();
        outcome
    }

    /// Whether nothing is pending or being written.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    fn start(&mut self) {
        while let Some((decision, priority)) = self.queue.take() {
            let writer = self.writer.clone();
            self.running.spawn(async move {
                let outcome = writer.write(&decision, priority).await;
                (decision.vpa.key.clone(), outcome)
            });
        }
    }
}

#[cfg(test)]
mod tests;
