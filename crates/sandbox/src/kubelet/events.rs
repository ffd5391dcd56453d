//! Events of hosted pods (`kubectl describe`), written asynchronously: a pod never waits for them.

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;

/// Events in the queue; more are dropped.
const WAITING: usize = 256;

/// Queue of events of all pods.
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
