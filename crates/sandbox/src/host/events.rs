//! Events of hosted pods (`kubectl describe`), written on the side: a pod never waits for them.

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;

/// Events waiting to be written; more are dropped.
const WAITING: usize = 256;

/// Takes events from all pods.
#[derive(Clone, Debug)]
pub(super) struct Events(mpsc::Sender<(Event, ObjectReference)>);

impl Events {
    /// The way in, and the future that writes.
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
                    tracing::debug!(%error, reason = event.reason, "an event was not written");
                }
            }
        };
        (Self(sender), write)
    }

    /// Something that belongs to the life of a pod.
    pub(super) fn normal(&self, pod: &Pod, reason: &str, note: String) {
        self.send(pod, EventType::Normal, reason, note);
    }

    /// Something that somebody should look at.
    pub(super) fn warning(&self, pod: &Pod, reason: &str, note: String) {
        self.send(pod, EventType::Warning, reason, note);
    }

    fn send(&self, pod: &Pod, type_: EventType, reason: &str, note: String) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        if self.0.try_send((event, pod.object_ref(&()))).is_err() {
            tracing::debug!(reason, "too many events; one was dropped");
        }
    }
}
