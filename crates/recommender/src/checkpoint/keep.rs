//! Keeps the checkpoint objects current for one term of leadership: after each round of usage,
//! those that changed are written; now and then, those that nobody needs are deleted.
//!
//! Source: upstream `pkg/recommender/routines/recommender.go` (`MaintainCheckpoints`).

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use api::checkpoint::VerticalPodAutoscalerCheckpointSpec;
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use runtime::Leading;
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use vertical::MAX_CONTAINERS;
use view::{Checkpoint, ObjectKey, View};

use crate::act::checkpoint::{How, Writer};
use crate::ingest::Shared;
use crate::metrics::CheckpointMetrics;
use crate::outcome::CheckpointOutcome;
use vertical::checkpoint::form;
use vertical::checkpoint::garbage::{Suspects, Useless, useless};
use vertical::checkpoint::name::choose;
use vertical::checkpoint::plan::{Verdict, in_order, verdict, written};

/// What keeps checkpoints current.
#[derive(Clone)]
pub(crate) struct Keeper {
    pub(crate) shared: Shared,
    /// The VPA objects.
    pub(crate) view: watch::Receiver<View>,
    /// The checkpoints.
    pub(crate) stored: watch::Receiver<View>,
    pub(crate) writer: Writer,
    /// How many VPA objects are looked at in the same moment.
    pub(crate) workers: usize,
    /// When no further VPA object is looked at after a round.
    pub(crate) timeout: Duration,
    pub(crate) gc_interval: Duration,
    pub(crate) metrics: CheckpointMetrics,
}

/// What is remembered for one term.
struct Term {
    metrics: CheckpointMetrics,
    began: Timestamp,
    started: Instant,
    looks: BTreeMap<ObjectKey, Look>,
    suspects: Suspects,
    /// Whether usage contradicted the clock after the last round.
    is_contradicted: bool,
}

/// When one VPA object was looked at.
#[derive(Clone, Copy)]
struct Look {
    last: Instant,
    /// When all that was known of it was last known to be stored.
    stored: Option<Timestamp>,
}

impl Keeper {
    /// Runs until shutdown, or until it is dropped with the lease.
    pub(crate) async fn run(
        self,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut rounds = self.shared.rounds();
        if *rounds.borrow_and_update() > 0 {
            rounds.mark_changed();
        }
        let mut collections = interval_at(Instant::now() + self.gc_interval, self.gc_interval);
        collections.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut term = Term::new(self.metrics.clone());
        let work = async {
            loop {
                tokio::select! {
                    changed = rounds.changed() => {
                        changed?;
                        self.write_changes(&mut term, &leading).await;
                    }
                    _ = collections.tick() => self.collect(&mut term, &leading).await,
                }
            }
        };
        shutdown.run_until_cancelled(work).await.unwrap_or(Ok(()))
    }

    /// Looks at all VPA objects, those that waited longest first, until the time is over; each
    /// worker looks at one at least.
    async fn write_changes(&self, term: &mut Term, leading: &Leading) {
        let started = Instant::now();
        let deadline = started + self.timeout;
        let autoscalers = block_in_place(|| self.shared.lock().checkpointed(Timestamp::now()));
        term.clock_checked(autoscalers.is_none());
        let Some(autoscalers) = autoscalers else {
            return;
        };
        term.forget_all_but(&autoscalers);
        let written = written(&self.stored.borrow().checkpoints);
        let all = autoscalers.into_iter().map(|key| {
            let waited = (
                term.looks
                    .get(&key)
                    .map(|look| look.last.duration_since(term.started)),
                written.get(&key).map(|written| written.oldest),
            );
            (key, waited)
        });
        let due = stream::iter(in_order(all.collect()).into_iter().enumerate());
        let due = due.take_while(|(index, _)| {
            let is_due = *index < self.workers || Instant::now() < deadline;
            async move { is_due }
        });
        let mut looked_at = pin!(
            due.map(|(_, key)| {
                let count = written.get(&key).map_or(0, |written| written.count);
                self.maintain(key, MAX_CONTAINERS.saturating_sub(count), leading)
            })
            .buffer_unordered(self.workers)
        );
        while let Some((key, is_stored)) = looked_at.next().await {
            term.looked_at(key, is_stored, Instant::now(), Timestamp::now());
        }
        self.metrics.stored_until(term.oldest());
        self.metrics.maintained(started.elapsed());
    }

    /// Stores what is known of one VPA object's containers, which may have `room` more checkpoints;
    /// returns whether all of it is stored.
    async fn maintain(
        &self,
        key: ObjectKey,
        mut room: usize,
        leading: &Leading,
    ) -> (ObjectKey, bool) {
        let contents = block_in_place(|| self.shared.lock().checkpoints(&key, Timestamp::now()));
        let mut is_stored = true;
        for (container, content) in contents {
            let outcome = self
                .maintain_one(&key, container, content, &mut room, leading)
                .await;
            self.metrics.written(outcome);
            is_stored &= outcome.is_stored();
        }
        (key, is_stored)
    }

    async fn maintain_one(
        &self,
        autoscaler: &ObjectKey,
        container: String,
        content: sizing::Checkpoint,
        room: &mut usize,
        leading: &Leading,
    ) -> CheckpointOutcome {
        let status = form::write(content);
        let (key, verdict) = {
            let stored = self.stored.borrow();
            let key = choose(&stored.checkpoints, autoscaler, &container);
            let object = stored.checkpoints.get(&key).map(AsRef::as_ref);
            let verdict = verdict(
                &autoscaler.name,
                &container,
                &status,
                object,
                *room > 0,
                Timestamp::now(),
            );
            (key, verdict)
        };
        let how = match verdict {
            Verdict::Unchanged => return CheckpointOutcome::Unchanged,
            Verdict::Newer | Verdict::Richer => return CheckpointOutcome::Newer,
            Verdict::Taken => {
                tracing::warn!(checkpoint = %key, container, "the name belongs to another container's checkpoint");
                return CheckpointOutcome::Taken;
            }
            Verdict::TooMany => return CheckpointOutcome::TooMany,
            Verdict::Create => {
                *room -= 1;
                How::Create
            }
            Verdict::Replace => How::Replace,
            Verdict::Fill => How::Fill,
        };
        let spec = VerticalPodAutoscalerCheckpointSpec {
            vpa_object_name: autoscaler.name.clone(),
            container_name: container,
        };
        self.writer.write(&key, how, spec, status, leading).await
    }

    /// Deletes what was of no use at this look and the one before. What is not known for sure is
    /// left for the next look.
    async fn collect(&self, term: &mut Term, leading: &Leading) {
        let useless = block_in_place(|| self.useless(Timestamp::now()));
        for useless in term.suspects.confirm(useless) {
            if self.writer.collect(&useless, leading).await {
                self.metrics.collected(useless.reason);
            }
        }
    }

    /// Nothing, as long as a watch is down. No two locks are held together: others take them in
    /// another order.
    fn useless(&self, now: Timestamp) -> Vec<Useless> {
        let is_current = |view: &View| view.is_synced() && view.stale_since().is_none();
        let autoscalers = {
            let view = self.view.borrow();
            is_current(&view).then(|| view.autoscalers.clone())
        };
        let checkpoints = {
            let stored = self.stored.borrow();
            is_current(&stored).then(|| stored.checkpoints.clone())
        };
        let Some((autoscalers, checkpoints)) = autoscalers.zip(checkpoints) else {
            return Vec::new();
        };
        let state = self.shared.lock();
        let crowded = state.crowded();
        let is_abandoned = |checkpoint: &Checkpoint, last_heard: Option<Timestamp>| {
            state.is_abandoned(
                &checkpoint.autoscaler(),
                &checkpoint.spec.container_name,
                last_heard,
                now,
            )
        };
        let is_omitted = |checkpoint: &Checkpoint| {
            let kept = crowded.get(&checkpoint.autoscaler());
            kept.is_some_and(|kept| !kept.contains(checkpoint.spec.container_name.as_str()))
        };
        useless(&checkpoints, &autoscalers, is_abandoned, is_omitted)
    }
}

impl Term {
    fn new(metrics: CheckpointMetrics) -> Self {
        let (looks, suspects) = (BTreeMap::new(), Suspects::default());
        Self {
            metrics,
            began: Timestamp::now(),
            started: Instant::now(),
            looks,
            suspects,
            is_contradicted: false,
        }
    }

    fn clock_checked(&mut self, is_contradicted: bool) {
        if is_contradicted && !self.is_contradicted {
            tracing::warn!(
                "writing no checkpoints: the last usage is more than an hour off the clock"
            );
        }
        self.is_contradicted = is_contradicted;
    }

    fn forget_all_but(&mut self, autoscalers: &[ObjectKey]) {
        let mut looks = std::mem::take(&mut self.looks);
        let kept = autoscalers.iter().filter_map(|key| looks.remove_entry(key));
        self.looks = kept.collect();
    }

    fn looked_at(&mut self, key: ObjectKey, is_stored: bool, last: Instant, now: Timestamp) {
        let before = self.looks.get(&key).and_then(|look| look.stored);
        let stored = if is_stored { Some(now) } else { before };
        self.looks.insert(key, Look { last, stored });
    }

    /// Since when something known may not be stored.
    fn oldest(&self) -> Option<Timestamp> {
        self.looks
            .values()
            .map(|look| look.stored.unwrap_or(self.began))
            .min()
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.metrics.stored_until(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn a_look_that_stores_nothing_counts_for_the_order_and_not_for_the_age() {
        let registry = prometheus::Registry::new();
        let (_, view) = watch::channel(View::default());
        let metrics = Metrics::register(&registry, vec![view])
            .expect("valid names")
            .checkpoints;
        let mut term = Term::new(metrics);
        let (web, shop) = (
            ObjectKey::new("shop", "web"),
            ObjectKey::new("shop", "shop"),
        );
        let after = |seconds| term_began() + std::time::Duration::from_secs(seconds);
        term.began = term_began();
        for (second, is_stored, expected) in [(10, false, 0), (20, true, 20), (30, false, 20)] {
            let last = Instant::now();
            term.looked_at(web.clone(), is_stored, last, after(second));
            assert_eq!(
                (term.looks[&web].last, term.oldest()),
                (last, Some(after(expected)))
            );
        }
        term.looked_at(shop.clone(), true, Instant::now(), after(40));
        term.forget_all_but(&[shop]);
        assert_eq!(
            term.oldest(),
            Some(after(40)),
            "an object that is gone has no age"
        );
    }

    fn term_began() -> Timestamp {
        Timestamp::from_second(1_800_000_000).expect("in range")
    }
}
