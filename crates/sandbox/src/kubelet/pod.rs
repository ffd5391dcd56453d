//! The lifecycle of one hosted pod, from its binding to its deletion: volumes, containers, status,
//! usage, end.

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
use super::container_state::Reports;
use super::pod_context::{PodContext, containers, grace};
use super::status::pod_status;
use super::stop::StopSignals;
use super::tokens::Granted;
use super::usage::{self, Meter, Reading};
use super::{Hosting, WaitingReason, container_order, kwok_resources, volume_writer};
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
            () = container_order::run(&self.context, &self.stop) => {}
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
            kubeconfig::write_for_pod(&context.kubeconfig(), &account, &namespace, port)
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
        .filter_map(|report| usage::read(report.pid?))
        .reduce(std::ops::Add::add)?;
    let containers = reports.main.len().max(1);
    Some(Reading {
        cpu_seconds: total.cpu_seconds / containers as f64,
        memory_bytes: total.memory_bytes / containers as u64,
    })
}
