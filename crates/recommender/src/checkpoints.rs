//! Controller of the checkpoints: one `VerticalPodAutoscalerCheckpoint` object per container of each
//! VPA object. After each round of usage, those are written that do not exist, whose recommendation
//! changed or whose refresh is due; at shutdown all changed ones, within a few seconds. Unused ones
//! are deleted periodically.
//!
//! Source: upstream `pkg/recommender/routines/recommender.go` (`MaintainCheckpoints`).

use std::pin::pin;
use std::time::Duration;

use api::checkpoint::{VerticalPodAutoscalerCheckpointSpec, VerticalPodAutoscalerCheckpointStatus};
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use runtime::{Leading, LogOnce};
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;
use vertical::checkpoint::CheckpointSchedule;
use vertical::checkpoint::content::CheckpointContent;
use vertical::checkpoint::garbage::{UnusedCandidates, UnusedCheckpoint, unused};
use vertical::checkpoint::method_history::operations;
use vertical::checkpoint::plan::{
    CheckpointAction, Rooms, checkpoint_action, choose, stored_checkpoints,
};
use view::{Checkpoint, ObjectKey, View};

use crate::checkpoint_writer::{CheckpointOutcome, CheckpointWriter};
use crate::ingest::SharedState;
use crate::metrics::CheckpointMetrics;

/// Time for the writes at shutdown, while the Lease is held.
const FINAL_WRITES: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct CheckpointController {
    pub(crate) shared: SharedState,
    pub(crate) view: watch::Receiver<View>,
    pub(crate) stored: watch::Receiver<View>,
    pub(crate) writer: CheckpointWriter,
    /// Number of VPA objects that are maintained concurrently.
    pub(crate) workers: usize,
    /// Time after which a round maintains no further VPA object.
    pub(crate) timeout: Duration,
    /// Interval at which the checkpoint of an unchanged recommendation is written.
    pub(crate) refresh_interval: Duration,
    pub(crate) gc_interval: Duration,
    pub(crate) metrics: CheckpointMetrics,
}

struct TermState {
    metrics: CheckpointMetrics,
    started: Instant,
    schedule: CheckpointSchedule,
    candidates: UnusedCandidates,
    /// Whether usage contradicts the clock.
    contradicted: LogOnce<()>,
}

impl CheckpointController {
    /// Runs until shutdown, or until it is dropped with the lease.
    pub(crate) async fn run(
        mut self,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        self.writer = self.writer.during(&leading);
        let mut rounds = self.shared.rounds();
        if *rounds.borrow_and_update() > 0 {
            rounds.mark_changed();
        }
        let mut collection_timer = interval_at(Instant::now() + self.gc_interval, self.gc_interval);
        collection_timer.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut term = TermState::new(self.metrics.clone(), self.refresh_interval);
        let work = async {
            loop {
                tokio::select! {
                    changed = rounds.changed() => {
                        changed?;
                        self.write_changes(&mut term, self.timeout).await;
                    }
                    _ = collection_timer.tick() => self.collect(&mut term).await,
                }
            }
        };
        if let Some(ended) = shutdown.run_until_cancelled(work).await {
            return ended;
        }
        let all = self.shared.lock().checkpointed(Timestamp::now());
        term.schedule.enqueue(all.unwrap_or_default());
        // Without the API server, the writes end with the time.
        let writes = self.write_changes(&mut term, FINAL_WRITES);
        let _ = timeout(FINAL_WRITES, writes).await;
        Ok(())
    }

    /// Maintains the VPA objects that are due, until the timeout, least recently maintained first.
    /// Each worker maintains at least one.
    async fn write_changes(&self, term: &mut TermState, timeout: Duration) {
        let started = Instant::now();
        let deadline = started + timeout;
        let vpas = block_in_place(|| self.shared.lock().checkpointed(Timestamp::now()));
        let Some(vpas) = vpas else {
            if term.contradicted.is_new(()) {
                tracing::warn!(
                    "not writing checkpoints: the time of the last usage samples differs from the clock by more than an hour"
                );
            }
            return;
        };
        term.contradicted.clear();
        let stored = stored_checkpoints(&self.stored.borrow().checkpoints);
        let rooms = Rooms::beside(&stored);
        term.schedule.enqueue(self.shared.take_due_checkpoints());
        let due = term.schedule.due(vpas, &stored, term.started.elapsed());
        let due = stream::iter(due.into_iter().enumerate());
        let due = due.take_while(|(index, _)| {
            let is_due = *index < self.workers || Instant::now() < deadline;
            async move { is_due }
        });
        let mut maintaining = pin!(
            due.map(|(_, key)| {
                let room = rooms.of(&key);
                self.maintain(key, room)
            })
            .buffer_unordered(self.workers)
        );
        while let Some((key, is_stored)) = maintaining.next().await {
            let elapsed = term.started.elapsed();
            term.schedule
                .record(key, is_stored, elapsed, Timestamp::now());
        }
        self.metrics.stored_until(term.schedule.oldest());
        self.metrics.maintained(started.elapsed());
    }

    /// Stores the history of one VPA object's containers, which may have `room` more checkpoints.
    /// Returns whether all of it is stored.
    async fn maintain(&self, key: ObjectKey, mut room: usize) -> (ObjectKey, bool) {
        let contents = block_in_place(|| {
            let state = self.shared.lock();
            let contents = state.checkpoints(&key, Timestamp::now()).into_iter();
            contents
                .map(|(name, content)| (state.sizing_history(&key, &name), name, content))
                .collect::<Vec<_>>()
        });
        let mut is_stored = true;
        for (history, container, content) in contents {
            let outcome = self
                .maintain_one(&key, container, content, history, &mut room)
                .await;
            self.metrics.written(outcome);
            is_stored &= outcome.is_stored();
        }
        (key, is_stored)
    }

    async fn maintain_one(
        &self,
        vpa: &ObjectKey,
        container: String,
        status: VerticalPodAutoscalerCheckpointStatus,
        history: Option<String>,
        room: &mut usize,
    ) -> CheckpointOutcome {
        let (key, action, operations) = {
            let stored = self.stored.borrow();
            let key = choose(&stored.checkpoints, vpa, &container);
            let object = stored.checkpoints.get(&key).map(AsRef::as_ref);
            let action = checkpoint_action(
                &vpa.name,
                &container,
                &status,
                history.as_deref(),
                object,
                *room > 0,
                Timestamp::now(),
            );
            let operations = object.map(|object| operations(history.as_deref(), object));
            (key, action, operations.unwrap_or_default())
        };
        if !action.is_write() {
            if action == CheckpointAction::Taken {
                tracing::warn!(checkpoint = %key, container, "the name belongs to another container's checkpoint");
            }
            return CheckpointOutcome::Left(action);
        }
        *room -= usize::from(action == CheckpointAction::Create);
        let spec = VerticalPodAutoscalerCheckpointSpec {
            vpa_object_name: vpa.name.clone(),
            container_name: container,
        };
        let content = CheckpointContent {
            spec,
            status,
            history,
            operations,
        };
        CheckpointOutcome::Write(self.writer.write(&key, action, &content).await)
    }

    /// Deletes what was of no use at this look and the one before. What is not known for sure is
    /// left for the next maintained.
    async fn collect(&self, term: &mut TermState) {
        let unused = block_in_place(|| self.unused(Timestamp::now()));
        for unused in term.candidates.confirm(unused) {
            if self.writer.collect(&unused).await {
                self.metrics.collected(unused.reason);
            }
        }
    }

    /// The unused checkpoints; none while a watch is down. No two locks are held together, since other
    /// tasks take them in another order.
    fn unused(&self, now: Timestamp) -> Vec<UnusedCheckpoint> {
        let is_current = |view: &View| view.is_synced() && view.stale_since().is_none();
        let vpas = {
            let view = self.view.borrow();
            is_current(&view).then(|| view.vpas.clone())
        };
        let checkpoints = {
            let stored = self.stored.borrow();
            is_current(&stored).then(|| stored.checkpoints.clone())
        };
        let Some((vpas, checkpoints)) = vpas.zip(checkpoints) else {
            return Vec::new();
        };
        let state = self.shared.lock();
        let crowded = state.crowded();
        let is_abandoned = |checkpoint: &Checkpoint, last_heard: Option<Timestamp>| {
            state.is_abandoned(
                &checkpoint.vpa(),
                &checkpoint.spec.container_name,
                last_heard,
                now,
            )
        };
        let is_omitted = |checkpoint: &Checkpoint| {
            let kept = crowded.get(&checkpoint.vpa());
            kept.is_some_and(|kept| !kept.contains(checkpoint.spec.container_name.as_str()))
        };
        unused(&checkpoints, &vpas, is_abandoned, is_omitted)
    }
}

impl TermState {
    fn new(metrics: CheckpointMetrics, refresh_interval: Duration) -> Self {
        Self {
            metrics,
            started: Instant::now(),
            schedule: CheckpointSchedule::new(Timestamp::now(), refresh_interval),
            candidates: UnusedCandidates::default(),
            contradicted: LogOnce::default(),
        }
    }
}

impl Drop for TermState {
    fn drop(&mut self) {
        self.metrics.stored_until(None);
    }
}
