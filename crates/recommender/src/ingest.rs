//! Keeps the state current, in every replica, so that a new leader is warm: usage once per interval, kills at once,
//! changes of pods and objects as soon as they have settled for a moment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster::{OomKill, View};
use jiff::Timestamp;
use runtime::{Activity, Condition};
use sources::metrics_api::MetricsApi;
use tokio::sync::{mpsc, watch};
use tokio::task::block_in_place;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::metrics::Metrics;
use crate::state::State;

/// How long changes gather before they are taken up together.
const SETTLE: Duration = Duration::from_secs(1);
/// Upstream's health check allows so many intervals without activity.
const PATIENCE: u32 = 5;
/// With a short interval, one request that is waited for must not look like a standstill.
const LEAST_PATIENCE: Duration = Duration::from_mins(2);

/// The state, shared by the task that keeps it current and the one that decides from it. Clones share it.
#[derive(Clone)]
pub(crate) struct Shared {
    state: Arc<Mutex<State>>,
    /// Counts the changes.
    revision: watch::Sender<u64>,
    /// Counts the rounds of usage.
    rounds: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn new(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), revision: watch::Sender::new(0), rounds: watch::Sender::new(0) }
    }

    /// Every step leaves the state whole, so a panic elsewhere leaves nothing half-done.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes after changes.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Wakes after rounds of usage.
    pub(crate) fn rounds(&self) -> watch::Receiver<u64> {
        self.rounds.subscribe()
    }

    pub(crate) fn changed(&self) {
        self.revision.send_modify(|revision| *revision = revision.wrapping_add(1));
    }
}

/// Everything that flows into the state.
pub(crate) struct Ingest {
    pub(crate) shared: Shared,
    pub(crate) view: watch::Receiver<View>,
    /// The checkpoints, which change too often to wake anybody.
    pub(crate) stored: watch::Receiver<View>,
    pub(crate) kills: mpsc::Receiver<OomKill>,
    pub(crate) source: MetricsApi,
    pub(crate) metrics: Metrics,
    pub(crate) interval: Duration,
    pub(crate) activity: Activity,
    pub(crate) synced: Condition,
}

impl Ingest {
    /// Runs until it is dropped, or until nobody feeds the view any more.
    pub(crate) async fn run(mut self) {
        for view in [&mut self.view, &mut self.stored] {
            if view.wait_for(View::is_synced).await.is_err() {
                return;
            }
        }
        tracing::info!("all watches are synced");
        self.synced.ready();
        self.activity.expect_every((self.interval * PATIENCE).max(LEAST_PATIENCE), Instant::now());
        // Upstream waits for one interval before its first round.
        let mut rounds = interval(self.interval);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                _ = rounds.tick() => self.round().await,
                Some(kill) = self.kills.recv() => self.take_up(Some(kill)),
                changed = self.view.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    sleep(SETTLE).await;
                    self.take_up(None);
                }
            }
            self.activity.record(Instant::now());
        }
    }

    /// What upstream does once per interval, without the writing.
    async fn round(&mut self) {
        let metrics = self.metrics.clone();
        let mut steps = metrics.steps();
        block_in_place(|| {
            self.view.mark_unchanged();
            let view = self.view.borrow();
            let mut state = self.shared.lock();
            state.load_autoscalers(&view);
            self.load_checkpoints(&mut state);
            steps.done("LoadVPAs");
            state.load_pods(&view, Timestamp::now());
            steps.done("LoadPods");
        });
        let usage = self.source.read().await;
        metrics.source_read(usage.is_ok());
        let now = Timestamp::now();
        block_in_place(|| {
            let shared = self.shared.clone();
            let mut state = shared.lock();
            match usage {
                Ok(usage) => metrics.ingested(state.add_usage(&usage, now)),
                Err(error) => tracing::warn!(%error, "no usage was read; recommendations stay as they are"),
            }
            self.add_kills(&mut state, None);
            steps.done("LoadMetrics");
            state.delete_removed_pods();
            steps.done("DeleteRemovedPods");
            let dropped = state.collect_garbage(now);
            if dropped > 0 {
                tracing::info!(dropped, "dropped old histories");
            }
            metrics.histories(state.history_count());
            steps.done("GarbageCollect");
        });
        self.shared.changed();
        self.shared.rounds.send_modify(|round| *round = round.wrapping_add(1));
    }

    /// Adds what was stored before to what is measured; a checkpoint that cannot be used is reported once.
    fn load_checkpoints(&self, state: &mut State) {
        let loaded = state.load_checkpoints(&self.stored.borrow().checkpoints, Timestamp::now());
        for (checkpoint, error) in &loaded.refused {
            tracing::warn!(%checkpoint, %error, "the checkpoint cannot be used");
        }
        if loaded.accepted > 0 {
            tracing::info!(count = loaded.accepted, "loaded checkpoints");
        }
        self.metrics.checkpoints.loaded(loaded.accepted, loaded.refused.len());
    }

    /// Takes up what happened between two rounds.
    fn take_up(&mut self, kill: Option<OomKill>) {
        block_in_place(|| {
            let shared = self.shared.clone();
            let mut state = shared.lock();
            self.view.mark_unchanged();
            {
                let view = self.view.borrow();
                if state.load_autoscalers(&view) {
                    self.load_checkpoints(&mut state);
                }
                state.load_pods(&view, Timestamp::now());
            }
            self.add_kills(&mut state, kill);
            state.delete_removed_pods();
        });
        self.shared.changed();
    }

    fn add_kills(&mut self, state: &mut State, first: Option<OomKill>) {
        let now = Timestamp::now();
        let mut next = first.or_else(|| self.kills.try_recv().ok());
        while let Some(kill) = next {
            let accepted = match state.add_kill(&kill, now) {
                Ok(true) => {
                    tracing::info!(pod = %kill.pod, container = kill.container, "killed for want of memory");
                    true
                }
                Ok(false) => false,
                Err(error) => {
                    tracing::debug!(%error, "a kill for want of memory cannot be used");
                    false
                }
            };
            self.metrics.kill(accepted);
            next = self.kills.try_recv().ok();
        }
    }
}
