//! Runs one container of a hosted pod until it is over: start, probes, end, restart after a back-off.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    Hosting, Problem,
    address::PodAddress,
    asking,
    backoff::BackOff,
    environment,
    launch::{Folders, Launch},
    logs::Log,
    mounts::{Mount, mounts, rewrite_argument},
    objects::References,
    probe::{self, Check, Probe},
    process::{self, Process},
    report::{Report, Reports, Slot},
};

/// How long a container that cannot start waits for what it lacks before it looks again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// A kubelet needs about this long to notice that a container runs; failures before that are not counted.
const UNNOTICED: Duration = Duration::from_secs(1);

/// Between two attempts in that time.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The shortest time between SIGTERM and SIGKILL.
const SHORTEST_GRACE: Duration = Duration::from_secs(1);

/// The pod that containers belong to.
pub(super) struct PodContext {
    /// What all pods share.
    pub(super) hosting: Arc<Hosting>,
    /// The latest version of the pod.
    pub(super) pods: watch::Receiver<Option<Arc<Pod>>>,
    /// Its address.
    pub(super) address: PodAddress,
    /// Everything of this pod on disk.
    pub(super) folder: PathBuf,
    /// What its containers report.
    pub(super) reports: watch::Sender<Reports>,
}

impl PodContext {
    /// The pod as it is now, or an empty one when it is gone.
    pub(super) fn pod(&self) -> Arc<Pod> {
        self.pods.borrow().clone().unwrap_or_default()
    }

    /// Its volumes, one folder each.
    pub(super) fn volumes(&self) -> PathBuf {
        self.folder.join("volumes")
    }

    /// A container's log folder.
    pub(super) fn logs(&self, container: &str) -> PathBuf {
        self.folder.join("logs").join(container)
    }

    /// The kubeconfig for its `ServiceAccount`.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }
}

/// When a container must be gone: `None` while it may run.
pub(super) type Deadline = watch::Receiver<Option<Instant>>;

/// Waits for the order to end.
pub(super) async fn ordered(deadline: &mut Deadline) -> Instant {
    match deadline.wait_for(Option::is_some).await {
        Ok(ordered) => ordered.unwrap_or_else(Instant::now),
        Err(_) => Instant::now(),
    }
}

/// Which ends are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    /// None.
    Always,
    /// Exit code 0.
    OnFailure,
    /// All.
    Never,
}

impl Restart {
    /// The pod's policy, as it applies to one of its containers.
    pub(super) fn of(pod: &Pod, container: &Container, init: bool) -> Self {
        let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        match (container.restart_policy.as_deref().or(policy), init) {
            (Some("Never"), _) => Self::Never,
            (Some("OnFailure"), _) => Self::OnFailure,
            (_, true) if container.restart_policy.is_none() => Self::OnFailure,
            _ => Self::Always,
        }
    }

    fn again(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

/// One container and where it reports to.
pub(super) struct Runner {
    context: Arc<PodContext>,
    container: Container,
    slot: Slot,
    restart: Restart,
}

/// A container whose configuration is complete.
struct Prepared {
    /// `None` for an image that is not ours: such a container is played.
    launch: Option<Launch>,
    mounts: Vec<Mount>,
    startup: Option<Probe>,
    liveness: Option<Probe>,
    readiness: Option<Probe>,
}

/// The end of one run.
struct End {
    exit_code: i32,
    ordered: bool,
}

impl Runner {
    /// The runner of this container.
    pub(super) fn new(context: Arc<PodContext>, container: Container, slot: Slot, restart: Restart) -> Self {
        Self { context, container, slot, restart }
    }

    /// Runs it until it is over for good, or ordered to end.
    pub(super) async fn run(self, mut deadline: Deadline) {
        let mut back_off = BackOff::new(self.context.hosting.config.restart_back_off);
        loop {
            let prepared = tokio::select! {
                prepared = self.prepared() => prepared,
                _ = ordered(&mut deadline) => return,
            };
            let began = Instant::now();
            let end = match self.run_once(&prepared, &mut deadline).await {
                Ok(end) => end,
                Err(problem) => {
                    self.wait(problem);
                    End { exit_code: 128, ordered: false }
                }
            };
            if end.ordered || !self.restart.again(end.exit_code) {
                return self.report(|report| report.over = true);
            }
            let wait = back_off.after(began.elapsed());
            if !wait.is_zero() {
                self.back_off(wait);
                tokio::select! {
                    () = sleep(wait) => {}
                    _ = ordered(&mut deadline) => return self.report(|report| report.over = true),
                }
            }
        }
    }

    /// Waits until the configuration is complete, saying meanwhile what is missing.
    async fn prepared(&self) -> Prepared {
        let mut changes = self.context.hosting.objects.changes();
        loop {
            match self.prepare() {
                Ok(prepared) => return prepared,
                Err(problem) => self.wait(problem),
            }
            let _either = timeout(LOOK_AGAIN, changes.changed()).await;
        }
    }

    fn prepare(&self) -> Result<Prepared, Problem> {
        let context = &self.context;
        let config = &context.hosting.config;
        let pod = context.pod();
        let objects = context.hosting.objects.objects(&pod.namespace().unwrap_or_default(), &References::of(&pod));
        let base = environment::base(&pod, context.address, config.api_server_port);
        let environment = environment::environment(base, &pod, &self.container, &objects, context.address)?;
        let mounts = mounts(&self.container, &context.volumes())?;
        let root = context.folder.join("roots").join(&self.container.name);
        let folders = Folders { binaries: &config.binaries, root: &root, kubeconfig: &context.kubeconfig() };
        let launch = Launch::of(&self.container, &environment, &mounts, folders)?;
        if let Some(launch) = launch.as_ref().filter(|launch| !launch.program.is_file()) {
            return Err(Problem::image(format!("{} does not exist", launch.program.display())));
        }
        let probe = |probe: Option<&_>| probe.map(|probe| Probe::of(probe, &self.container)).transpose();
        let startup = probe(self.container.startup_probe.as_ref())?;
        let liveness = probe(self.container.liveness_probe.as_ref())?;
        let readiness = probe(self.container.readiness_probe.as_ref())?;
        Ok(Prepared { launch, mounts, startup, liveness, readiness })
    }

    async fn run_once(&self, prepared: &Prepared, deadline: &mut Deadline) -> Result<End, Problem> {
        let Some(launch) = &prepared.launch else { return Ok(self.play(deadline).await) };
        let failed = |error: std::io::Error| Problem::run(format!("start {}: {error}", launch.program.display()));
        let log = Log::start(&self.context.logs(&self.container.name)).map_err(failed)?;
        let mut process = Process::start(&self.context.hosting.config.shim, launch, &log).map_err(failed)?;
        let pid = process.pid();
        self.report(|report| {
            report.start(Timestamp::now(), Some(pid), prepared.startup.is_some(), prepared.readiness.is_some());
        });
        self.event("Started", format!("Started container {} as process {pid}", self.container.name));
        let end = tokio::select! {
            exit_code = process.wait() => End { exit_code, ordered: false },
            failed = self.watch_probes(prepared, launch) => {
                self.event("Killing", format!("Container {} failed {}, will be restarted", self.container.name, failed.kind));
                End { exit_code: process.end(failed.grace.unwrap_or_else(|| self.grace())).await, ordered: false }
            }
            until = ordered(deadline) => {
                self.event("Killing", format!("Stopping container {}", self.container.name));
                self.before_stop(prepared, launch, until).await;
                let grace = until.saturating_duration_since(Instant::now()).max(SHORTEST_GRACE);
                End { exit_code: process.end(grace).await, ordered: true }
            }
        };
        self.report(|report| report.end(Timestamp::now(), end.exit_code));
        Ok(end)
    }

    /// A container whose image is not ours: it runs without a process, as KWOK's do; an init container ends at once.
    async fn play(&self, deadline: &mut Deadline) -> End {
        self.report(|report| report.start(Timestamp::now(), None, false, false));
        let runs_to_its_end = matches!(self.slot, Slot::Init(_)) && self.restart != Restart::Always;
        if !runs_to_its_end {
            ordered(deadline).await;
        }
        self.report(|report| report.end(Timestamp::now(), 0));
        End { exit_code: 0, ordered: !runs_to_its_end }
    }

    /// Returns when a startup or liveness probe has failed.
    async fn watch_probes(&self, prepared: &Prepared, launch: &Launch) -> Failed {
        let began = Instant::now();
        let watched = |kind, probe| Watched { runner: self, prepared, launch, kind, probe, began };
        if let Some(probe) = &prepared.startup {
            if !watched("startup probe", probe).first_verdict().await {
                return Failed { kind: "startup probe", grace: probe.grace };
            }
            self.report(|report| {
                report.started = true;
                report.ready = prepared.readiness.is_none();
            });
        }
        let liveness = async {
            match &prepared.liveness {
                Some(probe) => {
                    watched("liveness probe", probe).until_failure().await;
                    Failed { kind: "liveness probe", grace: probe.grace }
                }
                None => std::future::pending().await,
            }
        };
        let readiness = async {
            if let Some(probe) = &prepared.readiness {
                watched("readiness probe", probe).follow(|ready| self.report(|report| report.ready = ready)).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            failed = liveness => failed,
            () = readiness => std::future::pending().await,
        }
    }

    async fn ask(&self, check: &Check, prepared: &Prepared, launch: &Launch) -> Result<(), String> {
        let own = self.context.address.on_loopback().to_string();
        match check {
            Check::Http { tls, host, port, path, headers } => {
                let host = host.as_deref().unwrap_or(&own);
                asking::get(asking::Get { tls: *tls, host, port: *port, path, headers }).await
            }
            Check::Tcp { host, port } => asking::connect(host.as_deref().unwrap_or(&own), *port).await.map(drop),
            Check::Exec(command) => {
                launch.check_command(command).map_err(|problem| problem.message)?;
                let command: Vec<String> =
                    command.iter().map(|word| rewrite_argument(word, &prepared.mounts)).collect();
                process::run(&self.context.hosting.config.shim, launch, &command).await
            }
        }
    }

    /// Runs the preStop hook, within the time that is left.
    async fn before_stop(&self, prepared: &Prepared, launch: &Launch, until: Instant) {
        let Some(hook) = self.container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref()) else {
            return;
        };
        let run = async {
            if let Some(pause) = &hook.sleep {
                sleep(Duration::from_secs(u64::try_from(pause.seconds).unwrap_or_default())).await;
                Ok(())
            } else if let Some(get) = &hook.http_get {
                let check = probe::http(get, &self.container).map_err(|problem| problem.message)?;
                self.ask(&check, prepared, launch).await
            } else {
                let command = hook.exec.as_ref().and_then(|exec| exec.command.clone()).unwrap_or_default();
                self.ask(&Check::Exec(command), prepared, launch).await
            }
        };
        tokio::select! {
            outcome = run => if let Err(error) = outcome {
                self.warning("FailedPreStopHook", format!("PreStopHook failed: {error}"));
            },
            () = sleep_until(until) => {}
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
        self.warning("BackOff", format!("Back-off restarting failed container {}", self.container.name));
        self.wait(Problem { reason: "CrashLoopBackOff", message });
    }

    fn grace(&self) -> Duration {
        let seconds = self.context.pod().spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30))
    }

    fn wait(&self, problem: Problem) {
        self.report(|report| report.wait(problem));
    }

    fn report(&self, change: impl FnOnce(&mut Report)) {
        self.context.reports.send_if_modified(|reports| {
            let Some(report) = reports.get_mut(self.slot) else { return false };
            let before = report.clone();
            change(report);
            *report != before
        });
    }

    fn event(&self, reason: &str, note: String) {
        self.context.hosting.events.normal(&self.context.pod(), reason, note);
    }

    fn warning(&self, reason: &str, note: String) {
        self.context.hosting.events.warning(&self.context.pod(), reason, note);
    }
}

/// A probe that ends its container.
struct Failed {
    kind: &'static str,
    grace: Option<Duration>,
}

/// A probe of a running container.
struct Watched<'a> {
    runner: &'a Runner,
    prepared: &'a Prepared,
    launch: &'a Launch,
    kind: &'static str,
    probe: &'a Probe,
    began: Instant,
}

impl Watched<'_> {
    /// Waits for the thresholds to decide once.
    async fn first_verdict(&self) -> bool {
        let mut tally = self.probe.tally();
        let mut next = self.began + self.probe.initial_delay;
        loop {
            if let Some(verdict) = tally.count(self.attempt(&mut next).await) {
                return verdict;
            }
        }
    }

    async fn until_failure(&self) {
        let mut tally = self.probe.tally();
        let mut next = self.began + self.probe.initial_delay;
        while tally.count(self.attempt(&mut next).await) != Some(false) {}
    }

    async fn follow(&self, mut tell: impl FnMut(bool)) {
        let mut tally = self.probe.tally();
        let mut next = self.began + self.probe.initial_delay;
        loop {
            if let Some(verdict) = tally.count(self.attempt(&mut next).await) {
                tell(verdict);
            }
        }
    }

    /// One attempt, when its time has come.
    async fn attempt(&self, next: &mut Instant) -> bool {
        sleep_until(*next).await;
        let mut answer = self.answer().await;
        while answer.is_err() && self.began.elapsed() < self.probe.initial_delay + UNNOTICED {
            sleep(ASK_AGAIN).await;
            answer = self.answer().await;
        }
        *next = Instant::now() + self.probe.period;
        if let Err(error) = &answer {
            self.runner.warning(
                "Unhealthy",
                format!("{} of container {} failed: {error}", self.kind, self.runner.container.name),
            );
        }
        answer.is_ok()
    }

    async fn answer(&self) -> Result<(), String> {
        let answer = timeout(self.probe.timeout, self.runner.ask(&self.probe.check, self.prepared, self.launch)).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {} s", self.probe.timeout.as_secs())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::host::fixtures::pod;

    #[track_caller]
    fn check(pod_policy: &str, container_policy: Option<&str>, init: bool, expected: Restart) {
        let pod = pod(&json!({"spec": {"restartPolicy": pod_policy}}));
        let container = Container { restart_policy: container_policy.map(str::to_owned), ..Container::default() };
        assert_eq!(Restart::of(&pod, &container, init), expected);
    }

    #[test]
    fn init_containers_run_until_they_succeed_unless_the_pod_never_restarts() {
        check("Always", None, false, Restart::Always);
        check("Always", None, true, Restart::OnFailure);
        check("Never", None, true, Restart::Never);
        check("OnFailure", None, true, Restart::OnFailure);
        check("OnFailure", None, false, Restart::OnFailure);
    }

    #[test]
    fn a_sidecar_always_restarts() {
        check("Never", Some("Always"), true, Restart::Always);
        check("OnFailure", Some("Always"), true, Restart::Always);
    }
}
