//! State that the parts of one hosted pod share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::{mpsc, watch};

use super::Hosting;
use super::address::PodAddress;
use super::container_state::{Report, Reports, Slot};

pub(super) struct PodContext {
    pub(super) hosting: Arc<Hosting>,
    /// The latest version of the pod.
    pub(super) pods: watch::Receiver<Option<Arc<Pod>>>,
    pub(super) address: PodAddress,
    pub(super) folder: PathBuf,
    pub(super) reports: watch::Sender<Reports>,
}

impl PodContext {
    /// The current pod, or an empty one when it is gone.
    pub(super) fn pod(&self) -> Arc<Pod> {
        self.pods.borrow().clone().unwrap_or_default()
    }

    /// Folder of its volumes, one folder each.
    pub(super) fn volumes(&self) -> PathBuf {
        self.folder.join("volumes")
    }

    pub(super) fn logs(&self, container: &str) -> PathBuf {
        self.folder.join("logs").join(container)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(super) fn event(&self, reason: &str, note: String) {
        let events = &self.hosting.events;
        events.send(&self.pod(), EventType::Normal, reason, note);
    }

    pub(super) fn warn(&self, reason: &str, note: String) {
        let events = &self.hosting.events;
        events.send(&self.pod(), EventType::Warning, reason, note);
    }

    pub(super) fn report(&self, slot: Slot, change: impl FnOnce(&mut Report)) {
        self.reports.send_if_modified(|reports| {
            let Some(report) = reports.get_mut(slot) else {
                return false;
            };
            let before = report.clone();
            change(report);
            *report != before
        });
    }
}

pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| {
        let init = spec.init_containers.iter().flatten();
        init.chain(&spec.containers)
    })
}

pub(super) fn grace(pod: &Pod) -> Duration {
    let spec = pod.spec.as_ref();
    let seconds = pod.metadata.deletion_grace_period_seconds;
    let seconds = seconds.or_else(|| spec?.termination_grace_period_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Duration::from_secs(seconds.unwrap_or(30))
}

/// Events in the queue; more are dropped.
const WAITING: usize = 256;

/// Events of all pods, written asynchronously: a pod never waits for them.
#[derive(Clone, Debug)]
pub(super) struct Events(mpsc::Sender<(Event, ObjectReference)>);

impl Events {
    pub(super) fn new(client: Client) -> (Self, impl Future<Output = ()>) {
        let (sender, mut receiver) = mpsc::channel::<(Event, ObjectReference)>(WAITING);
        let recorder = Recorder::new(
            client,
            Reporter {
                controller: "sandbox-host".to_owned(),
                instance: None,
            },
        );
        let write = async move {
            while let Some((event, regarding)) = receiver.recv().await {
                if let Err(error) = recorder.publish(&event, &regarding).await {
                    tracing::debug!(%error, reason = event.reason, "cannot write an event");
                }
            }
        };
        (Self(sender), write)
    }

    pub(super) fn send(&self, pod: &Pod, type_: EventType, reason: &str, note: String) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        if self.0.try_send((event, pod.object_ref(&()))).is_err() {
            tracing::debug!(reason, "the event queue is full; dropping an event");
        }
    }
}
