//! Loop that recommends: it decides after every change of the state, publishes to the feed and
//! writes the statuses, for one term of leadership.
//!
//! A resync decides about all objects in batches. It begins after changes and once per interval.
//! Urgent objects, those with a new OOM kill, are decided between two batches and written first.
//! All decisions are made here in sequence, so the later of two decisions about an object is the
//! newer one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use feed::LeaderTerm;
use jiff::Timestamp;
use runtime::{Leading, Pace, PassSchedule, WriteOutcome};
use tokio::sync::watch;
use tokio::task::{block_in_place, yield_now};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use vertical::recommender_state::{Batch, Decision};
use vertical::refresh::StatusChange;
use vertical::write_queue::Priority;
use view::ObjectKey;

use crate::feed_server;
use crate::ingest::SharedState;
use crate::metrics::{PublishMetrics, RecommendationChanges};
use crate::status_writer::StatusWrites;

/// A resync follows each change. While it writes thousands of statuses, each of which comes back as
/// a change, the pause leaves the CPU to the writes.
const PACE: Pace = Pace {
    settle: Duration::ZERO,
    min_pause: Duration::ZERO,
    pause_factor: 10,
    resync: Duration::MAX,
};
/// Maximum number of objects in a batch, and the time after which it ends: other tasks wait for the
/// state meanwhile.
const BATCH_SIZE: usize = 100;
const BATCH_TIME: Duration = Duration::from_millis(5);
/// Pause before failed writes are retried.
const RETRY: Duration = Duration::from_secs(5);

pub(crate) struct RecommendLoop {
    shared: SharedState,
    feed_term: Option<LeaderTerm>,
    writes: StatusWrites,
    metrics: PublishMetrics,
    leading: Leading,
    /// Notified after rounds of usage.
    rounds: watch::Receiver<u64>,
    changes: RecommendationChanges,
    resync: Option<Resync>,
    schedule: PassSchedule,
}

struct Resync {
    began: Instant,
    last: Option<ObjectKey>,
    decisions: BTreeMap<ObjectKey, Arc<Decision>>,
}

impl RecommendLoop {
    pub(crate) fn new(
        shared: SharedState,
        feed_term: Option<LeaderTerm>,
        writes: StatusWrites,
        metrics: PublishMetrics,
        leading: Leading,
    ) -> Self {
        let (rounds, changes) = (shared.rounds(), RecommendationChanges::default());
        Self {
            shared,
            feed_term,
            writes,
            metrics,
            leading,
            rounds,
            changes,
            resync: None,
            schedule: PassSchedule::new(PACE),
        }
    }

    /// Runs until shutdown, or until it is dropped with the lease.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut urgent = self.shared.urgent();
        let mut revisions = self.shared.revisions();
        if *revisions.borrow_and_update() > 0 {
            self.schedule.changed(Instant::now());
        }
        let metrics = self.metrics.clone();
        let _term = metrics.term();
        let mut steps = None;
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                objects = urgent.next() => self.recommend_urgent(&objects),
                outcome = self.writes.ended() => if outcome == WriteOutcome::Failed {
                    self.schedule.wake_at(Instant::now() + RETRY);
                },
                changed = revisions.changed() => {
                    changed?;
                    self.schedule.changed(Instant::now());
                }
                () = self.schedule.due(), if self.resync.is_none() => {
                    self.begin_resync();
                    steps.get_or_insert_with(|| metrics.steps.start());
                }
                // Other tasks run between two batches.
                () = yield_now(), if self.resync.is_some() => self.step(),
            }
            let is_done = self.resync.is_none() && self.writes.is_idle();
            if let Some(mut steps) = steps.take_if(|_| is_done) {
                steps.done("UpdateVPAs");
            }
        }
    }

    fn recommend_urgent(&mut self, objects: &BTreeSet<ObjectKey>) {
        let decisions =
            block_in_place(|| self.shared.lock().decide_objects(objects, Timestamp::now()));
        self.shared.checkpoints_are_due(objects.iter().cloned());
        for decision in decisions.into_iter().map(Arc::new) {
            self.publish(&decision);
            self.writes.put(Arc::clone(&decision), Priority::Urgent);
            if let Some(resync) = &mut self.resync {
                resync.decisions.insert(decision.vpa.key.clone(), decision);
            }
        }
    }

    fn begin_resync(&mut self) {
        let began = Instant::now();
        self.schedule.begin(began);
        self.resync = Some(Resync {
            began,
            last: None,
            decisions: BTreeMap::new(),
        });
    }

    /// Decides about the next batch of the resync.
    fn step(&mut self) {
        let Some(mut resync) = self.resync.take() else {
            return;
        };
        let last = resync.last.as_ref();
        let Batch { decisions, last } = block_in_place(|| {
            let state = self.shared.lock();
            let began = Instant::now();
            let is_enough = |count| count >= BATCH_SIZE || began.elapsed() >= BATCH_TIME;
            state.decide_batch(last, is_enough, Timestamp::now())
        });
        let changed = decisions
            .iter()
            .filter(|decision| decision.change == StatusChange::Decision);
        let changed = changed.map(|decision| decision.vpa.key.clone());
        self.shared.checkpoints_are_due(changed);
        for decision in decisions.into_iter().map(Arc::new) {
            if decision.is_change() {
                self.publish(&decision);
            }
            // A status that is already correct cancels the pending write of the object.
            self.writes.put(Arc::clone(&decision), Priority::Ordinary);
            resync.decisions.insert(decision.vpa.key.clone(), decision);
        }
        if last.is_some() {
            resync.last = last;
            self.resync = Some(resync);
        } else {
            self.end_resync(&resync);
        }
    }

    fn end_resync(&mut self, resync: &Resync) {
        let decisions = || resync.decisions.values().map(AsRef::as_ref);
        self.metrics.decided(decisions());
        let groups = block_in_place(|| self.shared.lock().node_group_totals(decisions()));
        self.metrics.node_groups.set(groups);
        if self.rounds.has_changed().unwrap_or(false) {
            self.rounds.mark_unchanged();
            self.changes.observe(&self.metrics.quality, decisions());
        }
        if let Some(term) = self.feed_term.as_ref().filter(|_| self.leads()) {
            let all = decisions().map(feed_server::recommendation);
            term.reset(all, Timestamp::now());
        }
        self.writes.retain(|key| resync.decisions.contains_key(key));
        self.schedule.end(resync.began.elapsed(), Instant::now());
    }

    /// Publishes a decision. Subscribers see nothing of a term before its first resync is complete.
    fn publish(&self, decision: &Decision) {
        if let Some(term) = self.feed_term.as_ref().filter(|_| self.leads()) {
            term.apply(feed_server::recommendation(decision), Timestamp::now());
        }
    }

    fn leads(&self) -> bool {
        self.leading.holds(std::time::Instant::now())
    }
}

#[cfg(test)]
mod tests;
