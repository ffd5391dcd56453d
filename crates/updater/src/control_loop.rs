//! One term of leadership: decides after every change, and has carried out what is decided, as fast
//! as it may be.
//!
//! A pass decides about what has changed, and once in each interval about everything. What it wants
//! replaces what waits. So that may miss the changes since the last pass, of at most one pause. It
//! is dropped at once when the stop switch is thrown, when a watch fails, and when the webhook's
//! Lease expires. What has begun counts from then on, until the view shows what came of it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use feed::Subscription;
use rollout::{
    Action, ActionKind, ActionOutcome, ActionReason, ClockReading, PausePolicy, PauseReason, Plan,
    Preconditions, PreemptionMode, PreemptionPlan, RolloutState, Settings, Skip, SkipReason,
    Snapshot, WebhookLiveness, check_preconditions, decide, is_current,
};
use runtime::ApiServerClock;
use runtime::throttle::Throttle;
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use view::{Autoscaler, ObjectKey, View};

use crate::events::{EventQueue, EventRecord};
use crate::feed_overlay::FeedOverlay;
use crate::metrics::{Classes, Metrics};
use crate::pod_writer::PodWriter;
use crate::rate_limit::{RateLimiter, RateLimits};

/// Between two passes there is a pause of so many times as long as a pass takes, so that following
/// thousands of pods that come and go does not take the machine from what makes them.
const REST: u32 = 5;
/// The shortest pause. A rollout makes hundreds of changes a second, and one pass takes up all that
/// came meanwhile.
const LEAST_REST: Duration = Duration::from_millis(100);

/// Upstream's health check allows so many intervals without activity.
const PATIENCE: u32 = 5;
/// But with short intervals this long: everything has to be read first.
const LEAST_PATIENCE: Duration = Duration::from_mins(1);

/// What is watched.
pub(crate) struct Inputs {
    /// Workloads.
    pub(crate) view: watch::Receiver<View>,
    /// The switch.
    pub(crate) control: watch::Receiver<View>,
    /// The webhook's Lease.
    pub(crate) webhook: watch::Receiver<View>,
    /// The feed, where it is on.
    pub(crate) feed: Option<watch::Receiver<Subscription>>,
    /// The API server's time: the Lease, ages of pods and maintenance windows are not judged by the
    /// node's own clock.
    pub(crate) clock: ApiServerClock,
}

/// What the command line says.
#[derive(Debug, Clone)]
pub(crate) struct LoopConfig {
    pub(crate) settings: Settings,
    pub(crate) policy: PausePolicy,
    pub(crate) limits: RateLimits,
    pub(crate) concurrency: usize,
    pub(crate) interval: Duration,
    /// Requests to the API server per second and at once.
    pub(crate) requests: Throttle,
}

/// Where results go.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) metrics: Metrics,
    pub(crate) events: EventQueue,
    pub(crate) activity: runtime::Activity,
}

impl Drop for ControlLoop {
    /// A standby is alive without doing anything.
    fn drop(&mut self) {
        self.reporter.activity.expect_nothing();
        self.reporter.metrics.stand_down();
    }
}

/// One term.
pub(crate) struct ControlLoop {
    inputs: Inputs,
    config: LoopConfig,
    writer: PodWriter,
    reporter: Reporter,
    started: Instant,
    state: RolloutState,
    preemptions: Vec<PreemptionPlan>,
    overlay: FeedOverlay,
    /// Whether the feed has told something since the last pass.
    feed_changed: bool,
    liveness: WebhookLiveness,
    classes: Classes,
    evictions: RateLimiter,
    resizes: RateLimiter,
    waiting: VecDeque<Arc<Action>>,
    /// Pods whose node was too small for them when the last pass looked.
    infeasible: BTreeSet<ObjectKey>,
    running: JoinSet<Done>,
    /// When the next pass is due.
    due: Option<Instant>,
    /// When a pass decides about everything, whether it changed or not.
    whole_due: Instant,
    /// When the next one may begin.
    rested: Instant,
    /// Until when the webhook is taken to live, where that matters.
    alive_until: Option<Instant>,
    /// When something that waits may go on.
    turn: Option<Instant>,
    /// Since when there has always been something to do.
    round: Option<Round>,
    said: Option<PauseReason>,
}

/// An act that was tried, its VPA object when it began, and its outcome; none if it was not sent.
type Done = (Arc<Action>, Option<Arc<Autoscaler>>, Option<ActionOutcome>);

struct Round {
    began: Instant,
    decided: Instant,
}

impl ControlLoop {
    pub(crate) fn new(
        inputs: Inputs,
        config: LoopConfig,
        writer: PodWriter,
        reporter: Reporter,
    ) -> Self {
        let now = Instant::now();
        let (evictions, resizes) = (
            RateLimiter::new(config.limits),
            RateLimiter::new(config.limits),
        );
        Self {
            inputs,
            config,
            writer,
            reporter,
            started: now,
            state: RolloutState::default(),
            preemptions: Vec::new(),
            overlay: FeedOverlay::default(),
            feed_changed: true,
            liveness: WebhookLiveness::default(),
            classes: Classes::default(),
            evictions,
            resizes,
            waiting: VecDeque::new(),
            infeasible: BTreeSet::new(),
            running: JoinSet::new(),
            due: Some(now),
            whole_due: now,
            rested: now,
            alive_until: None,
            turn: None,
            round: None,
            said: None,
        }
    }

    /// Runs until shutdown, when what has begun is waited for, or until it is dropped with the
    /// lease.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        self.reporter.activity.expect_every(
            (self.config.interval * PATIENCE).max(LEAST_PATIENCE),
            self.started.into_std(),
        );
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                // Who throws the switch waits for nothing, and while it is on a pass costs little.
                changed = self.inputs.control.changed() => { changed?; self.pass(); }
                Some(done) = self.running.join_next() => self.done(done?),
                changed = self.inputs.webhook.changed() => { changed?; self.soon(); }
                changed = self.inputs.view.changed() => { changed?; self.view_changed(); }
                () = heard(&mut self.inputs.feed) => { self.feed_changed = true; self.soon(); }
                () = at(self.due) => self.pass(),
                () = at(self.turn) => {}
            }
            self.start();
        }
        self.waiting.clear();
        while let Some(done) = self.running.join_next().await {
            self.done(done?);
        }
        Ok(())
    }

    fn update_overlay(&mut self) {
        if std::mem::take(&mut self.feed_changed)
            && let Some(feed) = &mut self.inputs.feed
        {
            self.overlay.update(&feed.borrow_and_update());
        }
    }

    /// Drops the acts that wait once the view is stale: they were decided by one that was current.
    fn view_changed(&mut self) {
        if !is_current(&self.inputs.view.borrow()) {
            self.waiting.clear();
        }
        self.soon();
    }

    fn soon(&mut self) {
        self.due_at(Instant::now().max(self.rested));
    }

    fn due_at(&mut self, time: Instant) {
        self.due = Some(self.due.map_or(time, |due| due.min(time)));
    }

    fn read_clocks(&self) -> ClockReading {
        ClockReading {
            wall: self.inputs.clock.timestamp(),
            monotonic: self.started.elapsed(),
        }
    }

    /// Decides anew.
    fn pass(&mut self) {
        let began = Instant::now();
        let now = self.read_clocks();
        if self.whole_due <= began {
            self.state.forget_decisions();
            self.whole_due = began + self.config.interval;
        }
        let (plan, pause, alive_until) = block_in_place(|| {
            self.update_overlay();
            let view = self.inputs.view.borrow_and_update();
            let (control, webhook) = (
                self.inputs.control.borrow_and_update(),
                self.inputs.webhook.borrow_and_update(),
            );
            self.reporter.metrics.step("ListPods", began.elapsed());
            let preconditions = Preconditions {
                view: &view,
                control: &control,
                webhook: &webhook,
            };
            let held =
                check_preconditions(&preconditions, &self.config.policy, &mut self.liveness, now);
            let (pause, alive_until) = (held.err(), held.ok().flatten());
            let snapshot = Snapshot {
                view: &view,
                recommendations: self.overlay.recommendations_for(&view),
                pause,
            };
            let plan = decide(&snapshot, &mut self.state, &self.config.settings, now);
            if pause.is_none() {
                self.reporter
                    .metrics
                    .planned(&plan, &view, &mut self.classes);
                say_infeasible(
                    &plan.skips,
                    &view,
                    &mut self.infeasible,
                    &self.reporter,
                    &self.classes,
                );
            }
            (plan, pause, alive_until)
        });
        let ended = Instant::now();
        self.reporter.metrics.step("FilterPods", ended - began);
        self.say(pause);
        let Plan {
            actions,
            preemptions,
            wake_in,
            ..
        } = plan;
        self.tell_preemptions(preemptions);
        self.waiting = actions.into();
        self.reporter.activity.record(ended.into_std());
        if self.round.is_none() && !self.waiting.is_empty() {
            self.reporter.metrics.round(&mut self.classes);
            self.round = Some(Round {
                began,
                decided: ended,
            });
        }
        self.rested = ended + ((ended - began) * REST).max(LEAST_REST);
        self.due = Some(wake_in.map_or(self.whole_due, |wake_in| {
            self.whole_due.min(began + wake_in)
        }));
        // The webhook may fall silent without anything that changes.
        self.alive_until = alive_until.map(|until| self.started + until);
        if let Some(until) = self.alive_until {
            self.due_at(until);
        }
        self.due = self.due.map(|due| due.max(self.rested));
    }

    /// Tells of each room once, for as long as it is the same.
    fn tell_preemptions(&mut self, preemptions: Vec<PreemptionPlan>) {
        let is_made = self.config.settings.preemption == PreemptionMode::On;
        for preemption in preemptions
            .iter()
            .filter(|preemption| !self.preemptions.contains(preemption))
        {
            self.reporter
                .events
                .push(EventRecord::preemption(preemption, is_made));
        }
        self.preemptions = preemptions;
    }

    fn say(&mut self, pause: Option<PauseReason>) {
        self.reporter.metrics.held(pause);
        if self.said != pause {
            if let Some(pause) = pause {
                tracing::warn!(reason = ?pause, "no pod is moved");
            } else {
                tracing::info!("pods are moved");
            }
            self.said = pause;
        }
    }

    /// Begins as much of what waits as may begin now.
    fn start(&mut self) {
        self.turn = None;
        let mut held_back = VecDeque::new();
        let now = Instant::now();
        if self.alive_until.is_some_and(|until| until <= now) {
            self.waiting.clear();
        }
        while self.running.len() < self.config.concurrency {
            let Some(action) = self.waiting.pop_front() else {
                break;
            };
            match self.may_go(&action, now.into_std()) {
                Ok(()) => self.go(action),
                Err(wait) => {
                    let time = now + wait;
                    self.turn = Some(self.turn.map_or(time, |turn| turn.min(time)));
                    held_back.push_back(action);
                    // Where only the requests are limited, nothing behind it goes sooner.
                    if self.config.limits == RateLimits::default() {
                        break;
                    }
                }
            }
        }
        held_back.append(&mut self.waiting);
        self.waiting = held_back;
        self.reporter
            .metrics
            .queue(self.running.len(), self.waiting.len());
        if self.running.is_empty()
            && self.waiting.is_empty()
            && let Some(Round { began, decided }) = self.round.take()
        {
            self.reporter.metrics.step("EvictPods", decided.elapsed());
            self.reporter.metrics.step("total", began.elapsed());
        }
    }

    /// Takes what an act needs of all limits, or nothing of any and says how long to wait.
    fn may_go(&mut self, action: &Action, now: std::time::Instant) -> Result<(), Duration> {
        let mut requests = self.config.requests;
        let wait = if action.reason.is_urgent() {
            requests.take_urgent(now)
        } else {
            requests.take(now)
        };
        if !wait.is_zero() {
            return Err(wait);
        }
        let limiter = if action.kind == ActionKind::Evict {
            &mut self.evictions
        } else {
            &mut self.resizes
        };
        limiter.take(&action.pod.namespace, now)?;
        self.config.requests = requests;
        Ok(())
    }

    fn go(&mut self, action: Arc<Action>) {
        self.state.begin(&action, self.read_clocks());
        let vpa = self
            .inputs
            .view
            .borrow()
            .autoscalers
            .get(&action.vpa)
            .cloned();
        if let Some(vpa) = &vpa
            && let Some(kill) = self.state.unrecorded_oom_kill(&action)
        {
            for record in EventRecord::oom_killed(&action, kill, vpa) {
                self.reporter.events.push(record);
            }
        }
        let writer = self.writer.clone();
        self.running.spawn(async move {
            let outcome = writer.execute(&action).await;
            (action, vpa, outcome)
        });
    }

    fn done(&mut self, (action, vpa, outcome): Done) {
        // What was not sent is not known to the API server; the term is over, and its memory with
        // it.
        let Some(outcome) = outcome else { return };
        let now = self.read_clocks();
        self.state.end(&action, &outcome, now);
        self.reporter
            .metrics
            .acted(&action, &outcome, &mut self.classes);
        match (&action.kind, &outcome, vpa) {
            (ActionKind::Evict, ActionOutcome::Accepted { .. }, Some(vpa)) => {
                tracing::info!(pod = %action.pod, vpa = %action.vpa, reason = ?action.reason, "evicted a pod");
                for record in EventRecord::evicted(&action.pod, &action.pod_uid, &vpa) {
                    self.reporter.events.push(record);
                }
            }
            (ActionKind::Resize { .. }, ActionOutcome::Accepted { .. }, _) => {
                tracing::info!(pod = %action.pod, vpa = %action.vpa, reason = ?action.reason, "resized a pod");
                self.reporter
                    .events
                    .push(EventRecord::resized(&action.pod, &action.pod_uid));
                if action.reason == ActionReason::Revert {
                    self.reporter
                        .events
                        .push(EventRecord::reverted(&action.pod, &action.pod_uid));
                }
            }
            // What was refused may be possible in another way.
            _ => self.soon(),
        }
    }
}

/// Tells once of each pod that is not resized because its node was too small before.
fn say_infeasible(
    skips: &[Arc<Skip>],
    view: &View,
    known: &mut BTreeSet<ObjectKey>,
    Reporter {
        metrics, events, ..
    }: &Reporter,
    classes: &Classes,
) {
    let infeasible = || {
        skips
            .iter()
            .filter(|skip| skip.reason == SkipReason::KnownInfeasible)
    };
    for skip in infeasible().filter(|skip| !known.contains(&skip.pod)) {
        metrics.infeasible(&skip.vpa, classes);
        if let Some(pod) = view.pods.get(&skip.pod) {
            events.push(EventRecord::skipped(&skip.pod, &pod.uid));
        }
    }
    *known = infeasible().map(|skip| skip.pod.clone()).collect();
}

async fn heard(feed: &mut Option<watch::Receiver<Subscription>>) {
    let Some(receiver) = feed else {
        return std::future::pending().await;
    };
    if receiver.changed().await.is_err() {
        *feed = None;
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
