//! Decides after every change of the state, tells the readers of the feed and has the statuses
//! written, for one term of leadership.
//!
//! There are two ways. A pass looks at all objects, in portions, and begins after changes and once
//! per interval. Urgent objects, those with a new kill, are decided about between two portions and
//! written ahead of others. All decisions are made here one after the other, so of two about one
//! object the later one is the newer one, on both ways.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use feed::LeaderTerm;
use jiff::Timestamp;
use runtime::Leading;
use tokio::sync::watch;
use tokio::task::{block_in_place, yield_now};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use vertical::state::{Decision, Portion};
use vertical::write_queue::Lane;
use view::ObjectKey;

use crate::act::Writes;
use crate::cooldown::{COOLDOWN_FACTOR, sleep_until_some};
use crate::ingest::Shared;
use crate::metrics::{Changes, PublishMetrics};
use crate::outcome::StatusOutcome;
use crate::serve;

/// Objects of one portion: a few milliseconds of work.
const PORTION: usize = 100;
/// How soon writes that did not get through are tried again.
const RETRY: Duration = Duration::from_secs(5);

/// What decides and tells.
pub(crate) struct Teller {
    shared: Shared,
    told: Option<LeaderTerm>,
    writes: Writes,
    metrics: PublishMetrics,
    leading: Leading,
    /// Woken after rounds of usage.
    rounds: watch::Receiver<u64>,
    changes: Changes,
    pass: Option<Pass>,
    /// When the next pass begins.
    due: Option<Instant>,
    /// When the next one may begin.
    rested: Instant,
}

/// A look at all objects.
struct Pass {
    began: Instant,
    /// The last object that was looked at.
    last: Option<ObjectKey>,
    decisions: BTreeMap<ObjectKey, Arc<Decision>>,
}

impl Teller {
    pub(crate) fn new(
        shared: Shared,
        told: Option<LeaderTerm>,
        writes: Writes,
        metrics: PublishMetrics,
        leading: Leading,
    ) -> Self {
        let (rounds, changes) = (shared.rounds(), Changes::default());
        Self {
            shared,
            told,
            writes,
            metrics,
            leading,
            rounds,
            changes,
            pass: None,
            due: None,
            rested: Instant::now(),
        }
    }

    /// Runs until shutdown, or until it is dropped with the lease.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut urgent = self.shared.urgent();
        let mut revisions = self.shared.revisions();
        if *revisions.borrow_and_update() > 0 {
            self.due = Some(self.rested);
        }
        let metrics = self.metrics.clone();
        let _term = metrics.term();
        let mut steps = None;
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                objects = urgent.next() => self.hurry(&objects),
                outcome = self.writes.ended() => if outcome == StatusOutcome::Failed {
                    self.due_at(Instant::now() + RETRY);
                },
                changed = revisions.changed() => {
                    changed?;
                    self.due_at(Instant::now().max(self.rested));
                }
                () = sleep_until_some(self.due), if self.pass.is_none() => {
                    self.begin_pass();
                    steps.get_or_insert_with(|| metrics.steps());
                }
                // Others get a turn between two portions.
                () = yield_now(), if self.pass.is_some() => self.go_on(),
            }
            let is_done = self.pass.is_none() && self.writes.is_idle();
            if let Some(mut steps) = steps.take_if(|_| is_done) {
                steps.done("UpdateVPAs");
            }
        }
    }

    fn due_at(&mut self, time: Instant) {
        self.due = Some(self.due.map_or(time, |due| due.min(time)));
    }

    /// Decides about these objects now.
    fn hurry(&mut self, objects: &BTreeSet<ObjectKey>) {
        let decisions =
            block_in_place(|| self.shared.lock().decide_these(objects, Timestamp::now()));
        for decision in decisions.into_iter().map(Arc::new) {
            self.tell(&decision);
            self.writes.put(Arc::clone(&decision), Lane::Urgent);
            if let Some(pass) = &mut self.pass {
                pass.decisions
                    .insert(decision.autoscaler.key.clone(), decision);
            }
        }
    }

    fn begin_pass(&mut self) {
        self.due = None;
        self.pass = Some(Pass {
            began: Instant::now(),
            last: None,
            decisions: BTreeMap::new(),
        });
    }

    /// Decides about the next portion of the pass.
    fn go_on(&mut self) {
        let Some(mut pass) = self.pass.take() else {
            return;
        };
        let last = pass.last.as_ref();
        let Portion { decisions, last } = block_in_place(|| {
            self.shared
                .lock()
                .decide_portion(last, PORTION, Timestamp::now())
        });
        for decision in decisions.into_iter().map(Arc::new) {
            if decision.is_change() {
                self.tell(&decision);
            }
            // A status that is right by now withdraws the write that waits for the object.
            self.writes.put(Arc::clone(&decision), Lane::Ordinary);
            pass.decisions
                .insert(decision.autoscaler.key.clone(), decision);
        }
        if last.is_some() {
            pass.last = last;
            self.pass = Some(pass);
        } else {
            self.end(&pass);
        }
    }

    fn end(&mut self, pass: &Pass) {
        self.metrics
            .decided(pass.decisions.values().map(AsRef::as_ref));
        if self.rounds.has_changed().unwrap_or(false) {
            self.rounds.mark_unchanged();
            self.changes.observe(
                &self.metrics.quality,
                pass.decisions.values().map(AsRef::as_ref),
            );
        }
        if let Some(term) = self.told.as_ref().filter(|_| self.leads()) {
            let all = pass
                .decisions
                .values()
                .map(|decision| serve::recommendation(decision));
            term.reset(all, Timestamp::now());
        }
        self.rested = Instant::now() + pass.began.elapsed() * COOLDOWN_FACTOR;
    }

    /// Readers of a term see nothing before the end of its first pass, when everything was told.
    fn tell(&self, decision: &Decision) {
        if let Some(term) = self.told.as_ref().filter(|_| self.leads()) {
            term.apply(serve::recommendation(decision), Timestamp::now());
        }
    }

    fn leads(&self) -> bool {
        self.leading.holds(std::time::Instant::now())
    }
}

#[cfg(test)]
mod tests;
