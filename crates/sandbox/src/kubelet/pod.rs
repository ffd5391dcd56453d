//! The lifecycle of one hosted pod, from its binding to its deletion: volumes, containers, status,
//! usage, end.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::events::EventType;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::address::PodAddress;
use super::container::run_in_order;
use super::container_state::Reports;
use super::pod_context::{PodContext, containers, grace};
use super::status::pod_status;
use super::stop::StopSignals;
use super::tokens::Granted;
use super::{Hosting, WaitingReason, kwok_resources, volume_writer};
use crate::kubeconfig;

/// Pause after a failed write.
const RETRY: Duration = Duration::from_secs(1);

/// Attempts to write the last status before the pod object is deleted.
const LAST_WRITES: usize = 5;

/// Grace period of processes when the sandbox ends.
const SANDBOX_GRACE: Duration = Duration::from_secs(3);

/// Grace period of processes when the pod object is already gone.
const GONE_GRACE: Duration = Duration::from_secs(1);

/// Annotation of a pod whose own program writes those of its usage.
const OWN_USAGE: &str = "sandbox.plimsoll.dev/own-usage";

/// Time between two readings of usage.
const USAGE_PERIOD: Duration = Duration::from_secs(10);

/// Time between two readings before the first usage is known.
const FIRST_USAGE_PERIOD: Duration = Duration::from_secs(1);

/// Hosts a pod until its object is gone or the sandbox ends. `pods` holds its latest version,
/// `None` once it is gone.
pub(super) async fn host(
    hosting: Arc<Hosting>,
    pods: watch::Receiver<Option<Arc<Pod>>>,
    cancel: CancellationToken,
) {
    let Some(pod) = pods.borrow().clone() else {
        return;
    };
    let Some(address) = hosting.registry.admit(&pod) else {
        let note = "no address is left".to_owned();
        let (events, reason) = (&hosting.events, "FailedCreatePodSandBox");
        return events.send(&pod, EventType::Warning, reason, note);
    };
    let worker = PodWorker::new(Arc::clone(&hosting), pods, address, &pod);
    Box::pin(worker.run(cancel)).await;
    let folder = &worker.context.folder;
    if let Err(error) = tokio::fs::remove_dir_all(folder).await {
        tracing::debug!(%error, folder = %folder.display(), "cannot remove the folder of a pod");
    }
    hosting.registry.remove(&pod.uid().unwrap_or_default());
}

struct PodWorker {
    context: Arc<PodContext>,
    stop: StopSignals,
    api: Api<Pod>,
    name: String,
    uid: String,
}

impl PodWorker {
    fn new(
        hosting: Arc<Hosting>,
        pods: watch::Receiver<Option<Arc<Pod>>>,
        address: PodAddress,
        pod: &Pod,
    ) -> Self {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let namespace = pod.namespace().unwrap_or_default();
        let folder = hosting.folder.join(format!("{namespace}_{name}_{uid}"));
        let api = Api::namespaced(hosting.client.clone(), &namespace);
        let main = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
        let init = containers(pod).count() - main;
        let reports = watch::Sender::new(Reports::waiting(init, main));
        let context = Arc::new(PodContext {
            hosting,
            pods,
            address,
            folder,
            reports,
        });
        Self {
            context,
            stop: StopSignals::new(),
            api,
            name,
            uid,
        }
    }

    async fn run(&self, cancel: CancellationToken) {
        let mut written = None;
        tokio::select! {
            () = self.work() => {}
            () = self.watch_for_stop(&cancel) => {}
            () = self.write_status(&mut written) => {}
            () = self.measure() => {}
        }
        // The loop above may have been cancelled before its last write.
        self.write_last_status(&mut written).await;
        self.wait_for_deletion(&cancel).await;
    }

    /// Writes the volumes, keeps them current, and runs the containers.
    async fn work(&self) {
        let volumes = tokio::select! {
            volumes = self.write_volumes() => volumes,
            () = self.stop.wait() => return,
        };
        let published = kwok_resources::publish(&self.context.hosting.client, &self.context);
        if let Err(error) = published.await {
            tracing::debug!(%error, pod = self.name, "cannot publish the logs and ports of a pod for kubectl");
        }
        tokio::select! {
            () = run_in_order(&self.context, &self.stop) => {}
            () = volume_writer::keep_current(&self.context, volumes) => {}
        }
    }

    /// Writes the volumes for the first time; reports what is missing.
    async fn write_volumes(&self) -> Granted {
        let mut changes = self.context.hosting.objects.changes();
        loop {
            match self.try_to_write_volumes().await {
                Ok(volumes) => return volumes,
                Err(problem) => {
                    self.context.warn("FailedMount", problem.message.clone());
                    self.context.reports.send_modify(|reports| {
                        let waiting = reports.init.iter_mut().chain(&mut reports.main);
                        waiting.for_each(|report| report.wait(problem.clone()));
                    });
                }
            }
            let _either = tokio::time::timeout(RETRY * 5, changes.changed()).await;
        }
    }

    async fn try_to_write_volumes(&self) -> Result<Granted, WaitingReason> {
        let context = &self.context;
        let volumes = volume_writer::write_all(context).await?;
        let pod = context.pod();
        if let Some(account) = volume_writer::service_account(&pod) {
            let account = context.volumes().join(account);
            let port = kubeconfig::api_server_port(&pod);
            let port = port.unwrap_or(context.hosting.api_server_port);
            let namespace = pod.namespace().unwrap_or_default();
            kubeconfig::for_pod(&account, &namespace, port)
                .and_then(|text| Ok(std::fs::write(context.kubeconfig(), text)?))
                .map_err(|error| WaitingReason::volume(format!("write kubeconfig: {error:#}")))?;
        }
        Ok(volumes)
    }

    /// Turns deletion, disappearance and the sandbox's end into stop signals. Never returns.
    async fn watch_for_stop(&self, cancel: &CancellationToken) {
        let mut pods = self.context.pods.clone();
        loop {
            let grace = match &*pods.borrow_and_update() {
                None => Some(GONE_GRACE),
                Some(pod) if pod.metadata.deletion_timestamp.is_some() => Some(grace(pod)),
                Some(_) => None,
            };
            if let Some(grace) = grace {
                self.stop.stop_by(Instant::now() + grace);
            }
            tokio::select! {
                Ok(()) = pods.changed() => {}
                () = cancel.cancelled() => break,
            }
        }
        self.stop.stop_by(Instant::now() + SANDBOX_GRACE);
        std::future::pending::<()>().await;
    }

    /// Writes the status whenever it changes. Returns only when the pod is gone.
    async fn write_status(&self, written: &mut Option<PodStatus>) {
        let mut pods = self.context.pods.clone();
        let mut reports = self.context.reports.subscribe();
        loop {
            let Some(pod) = pods.borrow_and_update().clone() else {
                return std::future::pending().await;
            };
            let snapshot = reports.borrow_and_update().clone();
            if self.write(&pod, &snapshot, written).await.is_err() {
                sleep(RETRY).await;
                continue;
            }
            tokio::select! {
                _ = pods.changed() => {}
                _ = reports.changed() => {}
            }
        }
    }

    async fn write(
        &self,
        pod: &Pod,
        reports: &Reports,
        written: &mut Option<PodStatus>,
    ) -> Result<(), kube::Error> {
        let before = written.clone().or_else(|| pod.status.clone());
        let (address, now) = (self.context.address, Timestamp::now());
        let status = pod_status(pod, reports, address, &before.unwrap_or_default(), now);
        let ready = reports.main.iter().all(|report| report.ready);
        self.context.hosting.registry.update(pod, ready);
        if written.as_ref() == Some(&status) {
            return Ok(());
        }
        // The uid protects a later pod of the same name from this status.
        let patch = json!({"metadata": {"uid": self.uid}, "status": status});
        let (parameters, patch) = (PatchParams::default(), Patch::Strategic(&patch));
        let answer = self.api.patch_status(&self.name, &parameters, &patch);
        match answer.await {
            Err(error) if !is_gone(&error) => {
                tracing::debug!(%error, pod = self.name, "cannot write the status of a pod");
                Err(error)
            }
            _ => {
                *written = Some(status);
                Ok(())
            }
        }
    }

    async fn write_last_status(&self, written: &mut Option<PodStatus>) {
        for _ in 0..LAST_WRITES {
            let Some(pod) = self.context.pods.borrow().clone() else {
                return;
            };
            let reports = self.context.reports.borrow().clone();
            if self.write(&pod, &reports, written).await.is_ok() {
                return;
            }
            sleep(RETRY / 5).await;
        }
    }

    /// Waits until a finished pod is deleted, then deletes its object.
    async fn wait_for_deletion(&self, cancel: &CancellationToken) {
        let mut pods = self.context.pods.clone();
        let deleted = pods.wait_for(|pod| {
            pod.as_ref()
                .is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
        });
        tokio::select! {
            pod = deleted => if pod.map_or(true, |pod| pod.is_none()) {
                return;
            },
            () = cancel.cancelled() => return,
        }
        let preconditions = Preconditions {
            uid: Some(self.uid.clone()),
            resource_version: None,
        };
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        while !cancel.is_cancelled() {
            match self.api.delete(&self.name, &parameters).await {
                Err(error) if !is_gone(&error) => {
                    tracing::debug!(%error, pod = self.name, "cannot delete a pod");
                }
                _ => return,
            }
            sleep(RETRY).await;
        }
    }

    /// Updates the annotations from which KWOK reports the pod's usage. Never returns.
    async fn measure(&self) {
        if self.context.pod().annotations().contains_key(OWN_USAGE) {
            return std::future::pending().await;
        }
        let mut meter = Meter::default();
        let mut written = None;
        loop {
            let period = written
                .as_ref()
                .map_or(FIRST_USAGE_PERIOD, |_| USAGE_PERIOD);
            sleep(period).await;
            let reading = reading(&self.context.reports.borrow());
            let usage = reading.and_then(|reading| meter.measure(Timestamp::now(), reading));
            let Some(usage) = usage.filter(|usage| written.as_ref() != Some(usage)) else {
                continue;
            };
            let annotations = json!({"kwok.x-k8s.io/usage-cpu": usage.cpu, "kwok.x-k8s.io/usage-memory": usage.memory});
            let patch = json!({"metadata": {"uid": self.uid, "annotations": annotations}});
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
            match self.api.patch(&self.name, &parameters, &patch).await {
                Ok(_) => written = Some(usage),
                Err(error) => {
                    tracing::debug!(%error, pod = self.name, "cannot write the usage of a pod");
                }
            }
        }
    }
}

/// Whether the object is gone, or has another uid.
fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(answer) if matches!(answer.code, 404 | 409))
}

/// Usage of all running processes of a pod, divided among its containers: KWOK's fake kubelet
/// reports one value for each of them.
fn reading(reports: &Reports) -> Option<Reading> {
    let all = reports.init.iter().chain(&reports.main);
    let total = all
        .filter_map(|report| read(report.pid?))
        .reduce(std::ops::Add::add)?;
    let containers = reports.main.len().max(1);
    Some(Reading {
        cpu_seconds: total.cpu_seconds / containers as f64,
        memory_bytes: total.memory_bytes / containers as u64,
    })
}

/// A reading of one or more processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// CPU time since the start, in seconds.
    pub(super) cpu_seconds: f64,
    pub(super) memory_bytes: u64,
}

impl std::ops::Add for Reading {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            memory_bytes: self.memory_bytes + other.memory_bytes,
        }
    }
}

/// Reads one process from `/proc/<pid>/stat`: CPU time (fields 14 and 15) and resident memory (field
/// 24); `None` when it has ended.
fn read(pid: u32) -> Option<Reading> {
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    parse(
        &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?,
        ticks_per_second,
        rustix::param::page_size() as u64,
    )
}

/// The program's name in field 2 may hold spaces and brackets; the fields after it do not.
fn parse(stat: &str, ticks_per_second: u64, page_bytes: u64) -> Option<Reading> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = field(14)? + field(15)?;
    Some(Reading {
        cpu_seconds: ticks as f64 / ticks_per_second as f64,
        memory_bytes: field(24)? * page_bytes,
    })
}

/// Turns readings of one pod into the quantities of metrics.k8s.io.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    last: Option<(Timestamp, Reading)>,
}

/// Usage as text, in milli-cores and kibibytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// `12m`.
    pub(super) cpu: String,
    /// `3456Ki`.
    pub(super) memory: String,
}

impl Meter {
    /// Adds a reading; `None` for the first, or when a process was restarted in between.
    pub(super) fn measure(&mut self, now: Timestamp, reading: Reading) -> Option<Usage> {
        let (before, last) = self.last.replace((now, reading))?;
        let seconds = now.duration_since(before).as_secs_f64();
        let used = reading.cpu_seconds - last.cpu_seconds;
        (seconds > 0.0 && used >= 0.0).then(|| Usage {
            // Rounded up: a running process never uses nothing.
            cpu: format!("{}m", (used / seconds * 1000.0).ceil().max(1.0) as u64),
            memory: format!("{}Ki", reading.memory_bytes / 1024),
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn the_kernels_fields_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 1 2 3 4 150 50 7 8 20 0 1 0 4711 1000000 25 9";
        assert_eq!(
            parse(stat, 100, 4096),
            Some(Reading {
                cpu_seconds: 2.0,
                memory_bytes: 25 * 4096
            })
        );
        assert_eq!(parse("7 (a) S 1", 100, 4096), None);
        assert!(read(std::process::id()).unwrap().memory_bytes > 0);
    }

    #[test]
    fn usage_is_the_difference_of_two_readings() {
        let mut meter = Meter::default();
        let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let mut check = |seconds, cpu_seconds, expected: Option<&str>| {
            let usage = meter.measure(
                at(seconds),
                Reading {
                    cpu_seconds,
                    memory_bytes: 2048,
                },
            );
            assert_eq!(
                usage,
                expected.map(|cpu| Usage {
                    cpu: cpu.to_owned(),
                    memory: "2Ki".to_owned()
                })
            );
        };
        check(0, 1.0, None);
        check(10, 3.5, Some("250m"));
        check(20, 3.5, Some("1m"));
        check(30, 0.1, None);
        check(40, 0.2, Some("10m"));
    }
}
