//! Keeps the state current in every replica, so that a new leader is warm: usage once per interval,
//! OOM kills at once, changes of pods and objects after they have settled.

mod shared_state;

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use controllers::predictions::Round;
use jiff::Timestamp;
use model::Memory;
use runtime::{Activity, Condition, Pace, PassSchedule};
use sources::ContainerUsage;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{MissedTickBehavior, interval};
use vertical::recommender_state::{JudgedUsage, OomKillCounts, RecommenderState};
use view::{OomKill, View};

use crate::metrics::IngestMetrics;
use crate::usage_source::{Reading, Usage};
use runtime::Steps;

pub(crate) use shared_state::SharedState;

/// Changes are collected for a second. OOM kills do not wait.
const PACE: Pace = Pace {
    settle: Duration::from_secs(1),
    min_pause: Duration::ZERO,
    pause_factor: 10,
    resync: Duration::MAX,
};
/// Maximum number of queued OOM kills, upstream's value.
const MAX_QUEUED_OOM_KILLS: usize = 5000;
/// Number of samples in a batch: a few milliseconds of work.
const BATCH_SIZE: usize = 1000;
/// Intervals without activity before the health check fails, upstream's value.
const ACTIVITY_INTERVALS: u32 = 5;
/// Minimum of that time: with a short interval, one slow request must not look like a standstill.
const MIN_ACTIVITY_TIMEOUT: Duration = Duration::from_mins(2);

/// Task that feeds the state.
pub(crate) struct Ingest {
    pub(crate) shared: SharedState,
    pub(crate) view: watch::Receiver<View>,
    /// The checkpoints, which change too often to be a notification.
    pub(crate) stored: watch::Receiver<View>,
    pub(crate) kills: mpsc::Receiver<OomKill>,
    pub(crate) source: Usage,
    /// Receives the usage of every round.
    pub(crate) rounds: watch::Sender<Option<Round>>,
    pub(crate) metrics: IngestMetrics,
    pub(crate) interval: Duration,
    pub(crate) activity: Activity,
    pub(crate) synced: Condition,
}

impl Ingest {
    /// Runs until it is dropped, or until the view has no writer.
    pub(crate) async fn run(mut self) {
        for view in [&mut self.view, &mut self.stored] {
            if view.wait_for(View::is_synced).await.is_err() {
                return;
            }
        }
        tracing::info!("all watches are synced");
        self.synced.ready();
        self.activity.expect_every(
            (self.interval * ACTIVITY_INTERVALS).max(MIN_ACTIVITY_TIMEOUT),
            Instant::now(),
        );
        // Kills may wait already, and must find their pods.
        self.load_changes();
        // Upstream waits for one interval before its first round.
        let mut rounds = interval(self.interval);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (metrics, started) = (self.metrics.clone(), Instant::now());
        let mut steps = None;
        let mut reading = JoinSet::new();
        let mut schedule = PassSchedule::new(PACE);
        loop {
            tokio::select! {
                biased;
                Some(kill) = self.kills.recv() => self.add_oom_kills(Some(kill)),
                Some(read) = reading.join_next() => {
                    let reading = read.unwrap_or_else(|error| resume_unwind(error.into_panic()));
                    self.end_round(&reading, started.elapsed(), steps.take().unwrap_or_else(|| metrics.steps.start()));
                }
                _ = rounds.tick(), if reading.is_empty() => {
                    steps = Some(self.begin_round(metrics.steps.start()));
                    let (source, pods) = (self.source.clone(), self.source.pods(&self.shared.lock()));
                    reading.spawn(async move { source.read(pods).await });
                }
                changed = self.view.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    schedule.changed(tokio::time::Instant::now());
                }
                () = schedule.due() => {
                    let began = tokio::time::Instant::now();
                    schedule.begin(began);
                    self.load_changes();
                    schedule.end(began.elapsed(), tokio::time::Instant::now());
                }
            }
            self.activity.record(Instant::now());
        }
    }

    /// Upstream's steps of a round up to the reading of usage, without writes.
    fn begin_round(&mut self, mut steps: Steps) -> Steps {
        block_in_place(|| {
            self.view.mark_unchanged();
            let mut state = self.shared.lock();
            let view = self.view.borrow();
            state.load_vpas(&view);
            self.load_checkpoints(&mut state);
            steps.done("LoadVPAs");
            self.metrics
                .oom_kills(state.load_pods(&view, Timestamp::now()));
            steps.done("LoadPods");
        });
        steps
    }

    /// The remaining steps of a round.
    fn end_round(&mut self, reading: &Reading, steady: Duration, mut steps: Steps) {
        let now = Timestamp::now();
        let JudgedUsage {
            unmeasured,
            is_answer: answered,
        } = (self.shared.lock()).judge_usage(&reading.usage, reading.is_complete, now);
        self.metrics.source_read(reading.is_complete && answered);
        if answered {
            self.rounds.send_replace(Some(Round {
                at: now,
                usage: Arc::clone(&reading.usage),
                unmeasured: Arc::new(unmeasured),
            }));
        }
        block_in_place(|| {
            self.add_usage(&reading.usage, now);
            self.add_oom_kills(None);
            steps.done("LoadMetrics");
            let mut state = self.shared.lock();
            state.source_read(answered);
            state.round_ended(now, steady);
            state.delete_removed_pods();
            steps.done("DeleteRemovedPods");
            let dropped = state.collect_garbage(now);
            if dropped > 0 {
                tracing::info!(count = dropped, "deleted expired usage histories");
            }
            self.metrics.histories(state.history_count());
            steps.done("GarbageCollect");
        });
        self.shared.round_done();
    }

    /// Adds samples in batches, so that other tasks run in between. A leader compares them with the
    /// recommendations. Deferred checkpoints are loaded first.
    fn add_usage(&self, usage: &[ContainerUsage], now: Timestamp) {
        let whole_pods = {
            let mut state = self.shared.lock();
            state.begin_usage(usage, now);
            self.load_checkpoints(&mut state);
            state.whole_pods(usage)
        };
        let portions = usage.chunks(BATCH_SIZE);
        for portion in portions.chain(whole_pods.chunks(BATCH_SIZE)) {
            let is_leader = self.shared.is_leading();
            let ingested = self
                .shared
                .lock()
                .take_usage(portion, now, |state, usage, accepted| {
                    if is_leader && let Some(recommended) = state.recommended(&usage.container) {
                        self.metrics
                            .quality
                            .sample(recommended, &usage.sample, accepted);
                    }
                });
            self.metrics.ingested(ingested);
        }
    }

    /// Compares an OOM kill with the recommendation, in the leader. The peak of an unknown pod is
    /// computed after it is loaded.
    fn record_quality(&self, state: &RecommenderState, kill: &OomKill, peak: Option<Memory>) {
        let peak = peak
            .or_else(|| state.oom_peak(kill))
            .filter(|_| self.shared.is_leading());
        if let Some((recommended, peak)) = state.recommended(&kill.container_ref()).zip(peak) {
            self.metrics.quality.oom_kill(recommended, peak);
        }
    }

    /// Loads checkpoints. A refused checkpoint is logged once.
    fn load_checkpoints(&self, state: &mut RecommenderState) {
        let loaded = state.load_checkpoints(&self.stored.borrow().checkpoints, Timestamp::now());
        for (checkpoint, error) in &loaded.refused {
            tracing::warn!(%checkpoint, %error, "refused a checkpoint");
        }
        for (checkpoint, error) in &loaded.refused_histories {
            tracing::warn!(%checkpoint, %error, "refused the history of a sizing method; it starts anew");
        }
        for checkpoint in &loaded.deferred {
            tracing::warn!(%checkpoint, "the checkpoint is dated in the future; not loaded until usage samples agree with the clock");
        }
        if loaded.accepted > 0 {
            let (count, sizing_histories) = (loaded.accepted, loaded.histories);
            tracing::info!(count, sizing_histories, "loaded checkpoints");
        }
        self.metrics
            .checkpoints_loaded(loaded.accepted, loaded.refused.len());
    }

    /// Loads the changes since the last round.
    fn load_changes(&mut self) {
        block_in_place(|| {
            {
                let mut state = self.shared.lock();
                self.view.mark_unchanged();
                let view = self.view.borrow();
                if state.load_vpas(&view) {
                    self.load_checkpoints(&mut state);
                }
                self.metrics
                    .oom_kills(state.load_pods(&view, Timestamp::now()));
            }
            self.add_oom_kills(None);
            self.shared.lock().delete_removed_pods();
        });
        self.shared.changed();
    }

    /// Adds all queued OOM kills. The affected objects are enqueued as urgent.
    fn add_oom_kills(&mut self, first: Option<OomKill>) {
        let mut next = first.or_else(|| self.kills.try_recv().ok());
        if next.is_none() {
            return;
        }
        let mut concerned = BTreeSet::new();
        block_in_place(|| {
            let now = Timestamp::now();
            let mut state = self.shared.lock();
            let view = self.view.borrow();
            let mut count = OomKillCounts::default();
            while let Some(kill) = next {
                let peak = state.oom_peak(&kill);
                if state.add_oom_kill(&kill, &view, now, &mut count) {
                    self.record_quality(&state, &kill, peak);
                    state.add_vpas_of(&kill.pod, &mut concerned);
                }
                next = self.kills.try_recv().ok();
            }
            self.metrics.oom_kills(count);
        });
        self.shared.enqueue_urgent(concerned);
    }
}

/// The queue of OOM kills and the function that reports them. Reporting never blocks, since the
/// watch calls it.
pub(crate) fn oom_kill_queue(
    metrics: IngestMetrics,
) -> (
    mpsc::Receiver<OomKill>,
    impl Fn(OomKill) + Send + Sync + Clone,
) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_OOM_KILLS);
    let report = move |kill: OomKill| {
        if let Err(error) = sender.try_send(kill) {
            tracing::warn!(%error, "dropped an OOM kill: the queue is full");
            metrics.oom_kill_dropped();
        }
    };
    (receiver, report)
}
