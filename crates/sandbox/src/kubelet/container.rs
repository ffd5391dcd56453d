//! Runs one container of a hosted pod until it is over: start, probes, end, restart after a
//! back-off.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use kube::ResourceExt;
use tokio::time::{Instant, sleep, timeout};

use super::backoff::BackOff;
use super::container_config::ContainerConfig;
use super::container_state::{Report, Slot};
use super::logs::Log;
use super::pod_context::PodContext;
use super::probe::{self, Handler};
use super::prober::{ProbeFailure, Prober, probe_once};
use super::process::Process;
use super::process_spec::ProcessSpec;
use super::restart::Restart;
use super::stop::{Deadline, stop_due, stop_requested};
use super::{WaitingReason, resize};

/// Pause before a container that cannot start is checked again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// One container and its report.
pub(super) struct Runner {
    context: Arc<PodContext>,
    container: Container,
    slot: Slot,
    restart: Restart,
}

/// The end of one run.
struct End {
    exit_code: i32,
    cause: Cause,
}

/// Cause of a run's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The process ended by itself, or a probe failed.
    Itself,
    /// The pod must end.
    ControlRequest,
    /// New resources that take effect at a start only.
    Resize,
}

impl Runner {
    pub(super) fn new(
        context: Arc<PodContext>,
        container: Container,
        slot: Slot,
        restart: Restart,
    ) -> Self {
        Self {
            context,
            container,
            slot,
            restart,
        }
    }

    /// Runs the container until its final end, or until it is asked to stop.
    pub(super) async fn run(self, mut deadline: Deadline) {
        let mut back_off = BackOff::new(self.context.hosting.config.restart_back_off);
        loop {
            let prepared = tokio::select! {
                biased;
                _ = stop_requested(&mut deadline) => return self.report(|report| report.over = report.termination().is_some()),
                prepared = self.prepared() => prepared,
            };
            let began = Instant::now();
            let end = match self.run_once(&prepared, &mut deadline).await {
                Ok(end) => end,
                Err(problem) => {
                    self.wait(problem);
                    End {
                        exit_code: 128,
                        cause: Cause::Itself,
                    }
                }
            };
            if end.cause == Cause::Resize {
                continue;
            }
            if end.cause == Cause::ControlRequest || !self.restart.again(end.exit_code) {
                return self.report(|report| report.over = true);
            }
            let wait = back_off.after(began.elapsed());
            if !wait.is_zero() {
                self.back_off(wait);
                tokio::select! {
                    () = sleep(wait) => {}
                    _ = stop_requested(&mut deadline) => return self.report(|report| report.over = true),
                }
            }
        }
    }

    /// Waits until the configuration is complete; reports what is missing.
    async fn prepared(&self) -> ContainerConfig {
        let mut changes = self.context.hosting.objects.changes();
        loop {
            match ContainerConfig::of(&self.context, &self.container) {
                Ok(prepared) => return prepared,
                Err(problem) => self.wait(problem),
            }
            let _either = timeout(LOOK_AGAIN, changes.changed()).await;
        }
    }

    async fn run_once(
        &self,
        prepared: &ContainerConfig,
        deadline: &mut Deadline,
    ) -> Result<End, WaitingReason> {
        let Some(launch) = &prepared.launch else {
            return Ok(self.play(deadline).await);
        };
        let failed = |error: std::io::Error| {
            WaitingReason::run(format!("start {}: {error}", launch.program.display()))
        };
        let log = Log::start(&self.context.logs(&self.container.name)).map_err(failed)?;
        let mut process = Process::start(&self.context.hosting.config.exec_wrapper, launch, &log)
            .map_err(failed)?;
        let pid = process.pid();
        self.report(|report| {
            report.start(
                Timestamp::now(),
                Some(pid),
                prepared.startup.is_some(),
                prepared.readiness.is_some(),
            );
        });
        self.event(
            "Started",
            format!("Started container {} as process {pid}", self.container.name),
        );
        let prober = Prober {
            context: &self.context,
            slot: self.slot,
            name: &self.container.name,
            prepared,
            launch,
        };
        let end = tokio::select! {
            exit_code = process.wait() => End { exit_code, cause: Cause::Itself },
            ProbeFailure { kind, grace } = prober.until_failure() => {
                self.event("Killing", format!("Container {} failed {kind}, will be restarted", self.container.name));
                let latest = Instant::now() + grace.unwrap_or_else(|| self.grace());
                End { exit_code: process.end(Some(latest), deadline).await, cause: Cause::Itself }
            }
            () = resize::restart_needed(&self.context, &self.container) => {
                self.event("Killing", format!("Container {} resize requires restart", self.container.name));
                let latest = Instant::now() + self.grace();
                End { exit_code: process.end(Some(latest), deadline).await, cause: Cause::Resize }
            }
            _ = stop_requested(deadline) => {
                self.event("Killing", format!("Stopping container {}", self.container.name));
                self.before_stop(prepared, launch, deadline).await;
                End { exit_code: process.end(None, deadline).await, cause: Cause::ControlRequest }
            }
        };
        self.report(|report| report.end(Timestamp::now(), end.exit_code));
        Ok(end)
    }

    /// Simulates a container whose image is not ours: it runs without a process, as KWOK's do; an
    /// init container ends at once.
    async fn play(&self, deadline: &mut Deadline) -> End {
        self.report(|report| report.start(Timestamp::now(), None, false, false));
        let runs_to_its_end = matches!(self.slot, Slot::Init(_)) && self.restart != Restart::Always;
        if !runs_to_its_end {
            stop_requested(deadline).await;
        }
        self.report(|report| report.end(Timestamp::now(), 0));
        End {
            exit_code: 0,
            cause: if runs_to_its_end {
                Cause::Itself
            } else {
                Cause::ControlRequest
            },
        }
    }

    /// Runs the preStop hook, within the time that is left.
    async fn before_stop(
        &self,
        prepared: &ContainerConfig,
        launch: &ProcessSpec,
        deadline: &mut Deadline,
    ) {
        let Some(hook) = self
            .container
            .lifecycle
            .as_ref()
            .and_then(|lifecycle| lifecycle.pre_stop.as_ref())
        else {
            return;
        };
        let run = async {
            if let Some(pause) = &hook.sleep {
                sleep(Duration::from_secs(
                    u64::try_from(pause.seconds).unwrap_or_default(),
                ))
                .await;
                Ok(())
            } else if let Some(get) = &hook.http_get {
                let check = probe::http(get, &self.container).map_err(|problem| problem.message)?;
                probe_once(&self.context, &check, prepared, launch).await
            } else {
                let command = hook
                    .exec
                    .as_ref()
                    .and_then(|exec| exec.command.clone())
                    .unwrap_or_default();
                probe_once(&self.context, &Handler::Exec(command), prepared, launch).await
            }
        };
        tokio::select! {
            outcome = run => if let Err(error) = outcome {
                self.warning("FailedPreStopHook", format!("PreStopHook failed: {error}"));
            },
            () = stop_due(deadline, None) => {}
        }
    }

    fn back_off(&self, wait: Duration) {
        let pod = self.context.pod();
        let message = format!(
            "back-off {}s restarting failed container={} pod={}",
            wait.as_secs(),
            self.container.name,
            pod.name_any()
        );
        self.warning(
            "BackOff",
            format!(
                "Back-off restarting failed container {}",
                self.container.name
            ),
        );
        self.wait(WaitingReason {
            reason: "CrashLoopBackOff",
            message,
        });
    }

    fn grace(&self) -> Duration {
        let seconds = self
            .context
            .pod()
            .spec
            .as_ref()
            .and_then(|spec| spec.termination_grace_period_seconds);
        Duration::from_secs(
            seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .unwrap_or(30),
        )
    }

    fn wait(&self, problem: WaitingReason) {
        self.report(|report| report.wait(problem));
    }

    fn report(&self, change: impl FnOnce(&mut Report)) {
        self.context.report(self.slot, change);
    }

    fn event(&self, reason: &str, note: String) {
        self.context
            .hosting
            .events
            .normal(&self.context.pod(), reason, note);
    }

    fn warning(&self, reason: &str, note: String) {
        self.context
            .hosting
            .events
            .warning(&self.context.pod(), reason, note);
    }
}
