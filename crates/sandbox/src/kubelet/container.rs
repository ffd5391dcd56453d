//! Runs one container of a hosted pod until it is over: start, probes, end, restart after a
//! back-off.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::container_state::{Report, Slot};
use super::logs::Log;
use super::mounts::mounts;
use super::pod_context::{PodContext, containers, grace};
use super::probe::{self, Handler, Probe};
use super::prober::{Prober, probe_once};
use super::process::Process;
use super::process_spec::{Folders, ProcessSpec};
use super::restart::{BackOff, Restart};
use super::status::is_sidecar;
use super::stop::{Deadline, StopSignals, stop_due, stop_requested};
use super::{WaitingReason, environment};

/// Pause before a container that cannot start is checked again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

pub(super) struct Runner {
    pub(super) context: Arc<PodContext>,
    pub(super) container: Container,
    pub(super) slot: Slot,
    pub(super) restart: Restart,
}

/// The end of one run, with its exit code.
#[derive(Clone, Copy)]
enum End {
    /// The process ended by itself, or a probe failed.
    Itself(i32),
    /// The pod must end.
    Stop(i32),
    /// New resources take effect at a start only.
    Resize(i32),
}

impl Runner {
    /// Runs the container until its final end, or until it is asked to stop.
    pub(super) async fn run(self, mut deadline: Deadline) {
        let mut back_off = BackOff::new(self.context.hosting.config.options.restart_back_off);
        loop {
            let prepared = tokio::select! {
                biased;
                _ = stop_requested(&mut deadline) => return self.report(|report| report.over = report.termination().is_some()),
                prepared = self.prepared() => prepared,
            };
            let began = Instant::now();
            let end = self.run_once(&prepared, &mut deadline).await;
            let end = end.unwrap_or_else(|problem| {
                self.wait(problem);
                End::Itself(128)
            });
            match end {
                End::Resize(_) => continue,
                End::Itself(exit_code) if self.restart.again(exit_code) => {}
                End::Itself(_) | End::Stop(_) => return self.report(|report| report.over = true),
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
        let mut process =
            Process::start(&self.context.hosting.config.options.program, launch, &log)
                .map_err(failed)?;
        let pid = process.pid;
        self.report(|report| {
            report.start(
                Timestamp::now(),
                Some(pid),
                prepared.startup.is_some(),
                prepared.readiness.is_some(),
            );
        });
        let (context, name) = (&self.context, &self.container.name);
        context.event(
            "Started",
            format!("Started container {name} as process {pid}"),
        );
        let prober = Prober {
            context,
            slot: self.slot,
            name,
            prepared,
            launch,
        };
        let end = tokio::select! {
            exit_code = process.wait() => End::Itself(exit_code),
            probe = prober.until_failure() => {
                context.event("Killing", format!("Container {name} failed {probe}, will be restarted"));
                let latest = Instant::now() + grace(&context.pod());
                End::Itself(process.end(Some(latest), deadline).await)
            }
            () = restart_needed(context, &self.container) => {
                context.event("Killing", format!("Container {name} resize requires restart"));
                let latest = Instant::now() + grace(&context.pod());
                End::Resize(process.end(Some(latest), deadline).await)
            }
            _ = stop_requested(deadline) => {
                context.event("Killing", format!("Stopping container {name}"));
                self.before_stop(launch, deadline).await;
                End::Stop(process.end(None, deadline).await)
            }
        };
        let (End::Itself(exit_code) | End::Stop(exit_code) | End::Resize(exit_code)) = end;
        self.report(|report| report.end(Timestamp::now(), exit_code));
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
        if runs_to_its_end {
            End::Itself(0)
        } else {
            End::Stop(0)
        }
    }

    /// Runs the preStop hook, within the time that is left.
    async fn before_stop(&self, launch: &ProcessSpec, deadline: &mut Deadline) {
        let lifecycle = self.container.lifecycle.as_ref();
        let Some(hook) = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref()) else {
            return;
        };
        let run = async {
            let handler = if let Some(pause) = &hook.sleep {
                let seconds = u64::try_from(pause.seconds).unwrap_or_default();
                sleep(Duration::from_secs(seconds)).await;
                return Ok(());
            } else if let Some(get) = &hook.http_get {
                probe::http(get, &self.container).map_err(|problem| problem.message)?
            } else {
                let command = hook.exec.as_ref().and_then(|exec| exec.command.clone());
                Handler::Exec(command.unwrap_or_default())
            };
            probe_once(&self.context, &handler, launch).await
        };
        tokio::select! {
            outcome = run => if let Err(error) = outcome {
                self.context.warn("FailedPreStopHook", format!("PreStopHook failed: {error}"));
            },
            () = stop_due(deadline, None) => {}
        }
    }

    fn back_off(&self, wait: Duration) {
        let name = &self.container.name;
        let message = format!(
            "back-off {}s restarting failed container={name} pod={}",
            wait.as_secs(),
            self.context.pod().name_any()
        );
        self.context.warn(
            "BackOff",
            format!("Back-off restarting failed container {name}"),
        );
        self.wait(WaitingReason {
            reason: "CrashLoopBackOff",
            message,
        });
    }

    fn wait(&self, problem: WaitingReason) {
        self.report(|report| report.wait(problem));
    }

    fn report(&self, change: impl FnOnce(&mut Report)) {
        self.context.report(self.slot, change);
    }
}

/// A container whose configuration is complete.
pub(super) struct ContainerConfig {
    /// The process; `None` for an image that is not ours, whose container is simulated.
    pub(super) launch: Option<ProcessSpec>,
    /// Must succeed before the others start.
    pub(super) startup: Option<Probe>,
    /// Restarts the container when it fails.
    pub(super) liveness: Option<Probe>,
    /// Decides about traffic.
    pub(super) readiness: Option<Probe>,
}

impl ContainerConfig {
    /// Reads the current configuration of a container.
    fn of(context: &PodContext, container: &Container) -> Result<Self, WaitingReason> {
        let config = &context.hosting.config;
        let pod = context.pod();
        let lifecycle = container.lifecycle.as_ref();
        if lifecycle.is_some_and(|lifecycle| lifecycle.post_start.is_some()) {
            return Err(WaitingReason::unsupported("lifecycle.postStart"));
        }
        let objects = context
            .hosting
            .objects
            .objects(&pod.namespace().unwrap_or_default());
        let base = environment::base(&pod, context.address, context.hosting.api_server_port);
        let environment =
            environment::environment(base, &pod, container, &objects, context.address)?;
        let mounts = mounts(container, &context.volumes())?;
        let root = context.folder.join("roots").join(&container.name);
        let folders = Folders {
            binaries: &config.options.hosted_programs,
            root: &root,
            kubeconfig: &context.kubeconfig(),
        };
        let launch = ProcessSpec::of(container, &environment, mounts, folders)?;
        if let Some(launch) = launch.as_ref().filter(|launch| !launch.program.is_file()) {
            return Err(WaitingReason::image(format!(
                "{} does not exist",
                launch.program.display()
            )));
        }
        let probe = |probe: Option<&_>| probe.map(|probe| Probe::of(probe, container)).transpose();
        Ok(Self {
            launch,
            startup: probe(container.startup_probe.as_ref())?,
            liveness: probe(container.liveness_probe.as_ref())?,
            readiness: probe(container.readiness_probe.as_ref())?,
        })
    }
}

/// Order of a pod's containers: init containers one after the other, sidecars from their position
/// in that order on, then all others at the same time. Sidecars end last.
///
/// Runs all containers until they have ended or are asked to stop.
pub(super) async fn run_in_order(context: &Arc<PodContext>, stop: &StopSignals) {
    let pod = context.pod();
    let Some(spec) = &pod.spec else { return };
    let runner = |container: &Container, slot: Slot, init: bool| Runner {
        context: Arc::clone(context),
        container: container.clone(),
        slot,
        restart: Restart::of(&pod, container, init),
    };
    let mut sidecars = JoinSet::new();
    let mut initialized = true;
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let slot = Slot::Init(index);
        let run = runner(container, slot, true);
        if is_sidecar(container) {
            sidecars.spawn(run.run(stop.sidecars.subscribe()));
            started(context, stop, slot).await;
        } else {
            Box::pin(run.run(stop.for_containers())).await;
            initialized = context
                .reports
                .borrow()
                .get(slot)
                .is_some_and(Report::succeeded);
        }
        if !initialized || stop.requested().is_some() {
            initialized = false;
            break;
        }
    }
    if initialized {
        let mut main = JoinSet::new();
        for (index, container) in spec.containers.iter().enumerate() {
            main.spawn(runner(container, Slot::Main(index), false).run(stop.for_containers()));
        }
        main.join_all().await;
    }
    let soon = Instant::now() + grace(&pod);
    stop.stop_sidecars_by(soon);
    sidecars.join_all().await;
}

/// Waits until a sidecar has started, or the pod has to stop.
async fn started(context: &PodContext, stop: &StopSignals, slot: Slot) {
    let mut reports = context.reports.subscribe();
    tokio::select! {
        _ = reports.wait_for(|reports| reports.get(slot).is_none_or(|report| report.started || report.over)) => {}
        () = stop.wait() => {}
    }
}

/// Request and limit of each resource whose change needs a restart.
type Sensitive = BTreeMap<String, [Option<Quantity>; 2]>;

/// Waits until a change of the container's resources requires a restart.
/// Limits do not apply to a process, so other new resources are only reported.
pub(super) async fn restart_needed(context: &PodContext, container: &Container) {
    let of = |pod: &Pod| sensitive(containers(pod).find(|it| it.name == container.name));
    let started_with = of(&context.pod());
    let mut pods = context.pods.clone();
    let changed = |pod: &Option<Arc<Pod>>| pod.as_ref().is_some_and(|pod| of(pod) != started_with);
    if pods.wait_for(changed).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn sensitive(container: Option<&Container>) -> Sensitive {
    let Some(container) = container else {
        return Sensitive::new();
    };
    let resources = container.resources.clone().unwrap_or_default();
    let policies = container.resize_policy.iter().flatten();
    policies
        .filter(|policy| policy.restart_policy == "RestartContainer")
        .map(|policy| {
            let name = &policy.resource_name;
            let value = |map: &Option<BTreeMap<String, Quantity>>| map.as_ref()?.get(name).cloned();
            let values = [value(&resources.requests), value(&resources.limits)];
            (name.clone(), values)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(before: &Value, after: &Value, restart: bool) {
        let policy = json!([
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        ]);
        let of = |resources: &Value| {
            let container = json!({"name": "a", "resources": resources, "resizePolicy": policy});
            sensitive(Some(&serde_json::from_value(container).unwrap()))
        };
        assert_eq!(of(before) != of(after), restart, "{before} {after}");
    }

    #[test]
    fn only_resources_that_ask_for_it_restart_their_container() {
        let of = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
        check(&of("1", "1Gi"), &of("2", "1Gi"), false);
        check(&of("1", "1Gi"), &of("1", "2Gi"), true);
        check(
            &of("1", "1Gi"),
            &json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}),
            true,
        );
    }
}
