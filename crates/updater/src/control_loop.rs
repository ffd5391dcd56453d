//! The control loop of one term of leadership: decides after every change, and has the actions
//! carried out within the rate limits.
//!
//! A pass decides about the VPA objects that a change concerns, and once in each interval about all
//! of them. Its actions replace those that wait, so an action may miss the changes of at most one
//! pause. Waiting actions are dropped at once when the stop switch is made, when a watch fails, and,
//! but for relief, when the webhook's Lease expires. An action that was sent counts from then on, until the view
//! shows its effect.

mod executor;
mod inputs;
mod pacing;
mod pod_health;
mod reporter;
mod rollbacks;

use std::sync::Arc;
use std::time::Duration;

use rollout::{Action, PausePolicy, PreemptionMode, RolloutState, Settings, decide};
use runtime::rate_limiter::Throttle;
use runtime::schedule::at;
use runtime::{Pace, PassSchedule};
use tokio::task::block_in_place;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::pod_writer::PodWriter;

use executor::{Executor, Finished};
pub(crate) use inputs::Inputs;
use pacing::Pacing;
pub(crate) use pod_health::HealthSource;
use pod_health::PodHealth;
pub(crate) use reporter::Outputs;
use reporter::Reporter;
use rollbacks::Rollbacks;

/// The shortest pause between two passes. A rollout makes hundreds of changes a second, and one pass
/// takes all in.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// The pause after a pass in lengths of that pass. It leaves the machine to others while thousands
/// of pods come and go.
const PAUSE_FACTOR: u32 = 5;

#[derive(Debug, Clone)]
pub(crate) struct LoopConfig {
    pub(crate) settings: Settings,
    pub(crate) policy: PausePolicy,
    /// Evictions per second and burst, and the same for resizes; `None` means no limit.
    pub(crate) limit: Option<(f64, u32)>,
    pub(crate) interval: Duration,
    /// The source of the health of pods for waves.
    pub(crate) health: Option<HealthSource>,
    /// Limit of requests to the API server.
    pub(crate) requests: Throttle,
}

pub(crate) struct ControlLoop {
    inputs: Inputs,
    config: LoopConfig,
    state: RolloutState,
    schedule: PassSchedule,
    executor: Executor,
    rollbacks: Rollbacks,
    health: PodHealth,
    reporter: Reporter,
    /// Until when the webhook counts as alive; `None` if it does not matter, or is not alive.
    webhook_alive_until: Option<Instant>,
}

impl ControlLoop {
    pub(crate) fn new(
        inputs: Inputs,
        config: LoopConfig,
        writer: PodWriter,
        outputs: Outputs,
    ) -> Self {
        let (started, interval) = (inputs.started, config.interval);
        let pacing = Pacing::new(config.limit, config.requests);
        let mut schedule = PassSchedule::new(Pace {
            settle: Duration::ZERO,
            min_pause: MIN_PAUSE,
            pause_factor: PAUSE_FACTOR,
            resync: interval,
        });
        schedule.wake_at(started);
        Self {
            inputs,
            health: PodHealth::new(config.health.clone()),
            config,
            state: RolloutState::default(),
            schedule,
            rollbacks: Rollbacks::new(writer.clone()),
            executor: Executor::new(writer, pacing),
            reporter: Reporter::new(outputs, interval, started),
            webhook_alive_until: None,
        }
    }

    /// Runs until shutdown, and waits for the actions in flight then. Dropped with the lease.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        loop {
            let retry_at = self.executor.retry_at;
            let health_at = self.health.due_at();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                // At once, without the pause between passes: a stop must not wait, and a pass
                // costs little while it lasts.
                changed = self.inputs.control.changed() => { changed?; self.pass(); }
                () = self.inputs.another_updater.changed() => self.pass(),
                Some(finished) = self.executor.in_flight.join_next() => self.finish(finished?),
                Some(written) = self.rollbacks.writing.join_next() => {
                    self.rollbacks.end(&written?, &self.reporter, &self.inputs);
                }
                Some(read) = self.health.reading.join_next() => {
                    self.health.end(read?);
                    self.pass_soon();
                }
                changed = self.inputs.webhook.changed() => { changed?; self.pass_soon(); }
                changed = self.inputs.view.changed() => { changed?; self.view_changed(); }
                () = self.inputs.feed.changed() => self.pass_soon(),
                changed = self.inputs.node_load.changed() => { changed?; self.pass_soon(); }
                () = self.schedule.due() => self.pass(),
                () = at(retry_at) => {}
                () = at(health_at) => {
                    let (now, began) = (Instant::now(), self.inputs.started.elapsed());
                    self.health.start(now, began);
                }
            }
            self.start_actions();
        }
        self.executor.waiting.clear();
        while let Some(finished) = self.executor.in_flight.join_next().await {
            self.finish(finished?);
        }
        Ok(())
    }

    /// Drops waiting actions once the view is stale: they were decided from a current one.
    fn view_changed(&mut self) {
        if !self.inputs.is_view_current() {
            self.executor.waiting.clear();
        }
        self.pass_soon();
    }

    fn pass_soon(&mut self) {
        self.schedule.changed(Instant::now());
    }

    /// Decides, and replaces the waiting actions.
    fn pass(&mut self) {
        let began = Instant::now();
        if self.schedule.begin(began) {
            self.state.forget_decisions();
        }
        let now = self.inputs.now();
        let (plan, pause, alive_until) = block_in_place(|| {
            let Self {
                inputs,
                config,
                state,
                health,
                reporter,
                ..
            } = self;
            let readings = &health.readings;
            inputs.with_snapshot(&config.policy, readings, now, |snapshot| {
                (reporter.outputs.metrics.steps).observe("ListPods", began.elapsed());
                let plan = decide(snapshot, state, &config.settings, now);
                if snapshot.pause.is_none() {
                    reporter.planned(&plan, snapshot.view);
                    for refutation in &plan.refutations {
                        let vpa = snapshot.view.vpas.get(&refutation.vpa);
                        if let Some(vpa) = vpa.filter(|_| state.is_new_refutation(refutation)) {
                            reporter.refuted(refutation, vpa);
                        }
                    }
                }
                reporter.applied(&plan, snapshot, now.wall);
                (plan, snapshot.pause)
            })
        });
        let ended = Instant::now();
        let executes = self.config.settings.preemption == PreemptionMode::On;
        self.reporter.paused(pause);
        self.reporter.preemptions(plan.preemptions, executes);
        self.reporter.passed(began, ended, !plan.actions.is_empty());
        self.rollbacks.submit(plan.rollbacks);
        self.health.follow(plan.health_queries, ended);
        self.executor.waiting = plan.actions.into();
        self.webhook_alive_until = alive_until;
        self.schedule.end(ended - began, ended);
        // A maintenance window that never opens is due after more time than a clock can show.
        let wake_at = plan.wake_in.and_then(|wake_in| began.checked_add(wake_in));
        for time in [wake_at, alive_until].into_iter().flatten() {
            self.schedule.wake_at(time);
        }
    }

    fn start_actions(&mut self) {
        let now = Instant::now();
        if self.webhook_alive_until.is_some_and(|until| until <= now) {
            let waiting = &mut self.executor.waiting;
            waiting.retain(|action| action.reason.is_relief());
        }
        for action in self.executor.admit(now) {
            self.start(action);
        }
        let Executor {
            in_flight, waiting, ..
        } = &self.executor;
        self.reporter.queue(in_flight.len(), waiting.len());
    }

    fn start(&mut self, action: Arc<Action>) {
        self.state.begin(&action, self.inputs.now());
        let vpa = self.inputs.vpa(&action.vpa);
        if let Some(vpa) = &vpa
            && let Some(kill) = self.state.unrecorded_oom_kill(&action)
        {
            self.reporter.oom_killed(&action, kill, vpa);
        }
        self.executor.start(action, vpa);
    }

    fn finish(&mut self, finished: Finished) {
        let Finished {
            action,
            vpa,
            outcome,
        } = finished;
        // Not sent: this replica does not lead any more, and its state is about to be dropped.
        let Some(outcome) = outcome else { return };
        self.state.end(&action, &outcome, self.inputs.now());
        let is_accepted = self.reporter.finished(&action, vpa.as_deref(), &outcome);
        if !is_accepted {
            // Another action may be possible.
            self.pass_soon();
        }
    }
}
