//! Events about moved pods: upstream's reasons and words. They tell people what happened, so one that cannot be written is no
//! failure, and they wait behind everything else.

use cluster::{Autoscaler, ObjectKey};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};
use tokio::sync::mpsc;

use crate::decide::{Room, Way};

/// Upstream's source component.
const CONTROLLER: &str = "vpa-updater";
/// Events that wait to be written; those above are dropped.
const WAITING: usize = 10_000;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct News {
    about: ObjectReference,
    kind: EventType,
    reason: &'static str,
    action: &'static str,
    note: String,
}

impl News {
    /// A pod was evicted.
    pub(crate) fn evicted(pod: &ObjectKey, uid: &str, autoscaler: &Autoscaler) -> [Self; 2] {
        let note = "Pod was evicted by VPA Updater to apply resource recommendation.";
        let of_autoscaler = format!("VPA Updater evicted Pod {} to apply resource recommendation.", pod.name);
        [
            Self::normal(pod_reference(pod, uid), "EvictedByVPA", "Evict", note.to_owned()),
            Self::normal(autoscaler.reference(), "EvictedPod", "Evict", of_autoscaler),
        ]
    }

    /// A pod was resized where it runs.
    pub(crate) fn resized(pod: &ObjectKey, uid: &str) -> Self {
        let note = "Pod was resized in place by VPA Updater.";
        Self::normal(pod_reference(pod, uid), "InPlaceResizedByVPA", "Resize", note.to_owned())
    }

    /// A pod waits for room on its node.
    pub(crate) fn room(room: &Room, is_made: bool) -> Self {
        let verb = if is_made { "is" } else { "would be" };
        let note = match &room.way {
            Way::Neighbours(pods) => {
                let pods: Vec<String> = pods.iter().map(ToString::to_string).collect();
                format!("Room for its resize {verb} made by the eviction of {}.", pods.join(", "))
            }
            Way::Move => format!("Its node has no room for its resize: it {verb} evicted."),
        };
        Self::normal(pod_reference(&room.pod, &room.pod_uid), "MakeRoom", "Evict", note)
    }

    /// A pod was killed for want of memory after it was made smaller, and gets back what it had.
    pub(crate) fn reverted(pod: &ObjectKey, uid: &str) -> Self {
        let note = "Pod was killed for want of memory after it was resized; it gets back what it had and keeps that.";
        Self {
            kind: EventType::Warning,
            ..Self::normal(pod_reference(pod, uid), "ResizeReverted", "Resize", note.to_owned())
        }
    }

    /// A pod is not resized, since its node was too small for it before.
    pub(crate) fn skipped(pod: &ObjectKey, uid: &str) -> Self {
        let note = "Previously recorded in-place update was infeasible, current recommendation is not lower than previous, skipping resize";
        Self::normal(pod_reference(pod, uid), "InPlaceResizeSkipped", "Resize", note.to_owned())
    }

    fn normal(about: ObjectReference, reason: &'static str, action: &'static str, note: String) -> Self {
        Self { about, kind: EventType::Normal, reason, action, note }
    }
}

fn pod_reference(pod: &ObjectKey, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(Pod::api_version(&()).into_owned()),
        kind: Some(Pod::kind(&()).into_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// Takes events to be written. Clones share the queue.
#[derive(Debug, Clone)]
pub(crate) struct Events(mpsc::Sender<News>);

impl Events {
    /// The queue, and the writing itself, one event after the other. `client` should have a throttle of its own.
    pub(crate) fn new(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, mut told) = mpsc::channel::<News>(WAITING);
        let events = Recorder::new(client, Reporter { controller: CONTROLLER.to_owned(), instance: None });
        let writing = async move {
            while let Some(News { about, kind, reason, action, note }) = told.recv().await {
                let event = Event {
                    type_: kind,
                    reason: reason.to_owned(),
                    note: Some(note),
                    action: action.to_owned(),
                    secondary: None,
                };
                if let Err(error) = events.publish(&event, &about).await {
                    tracing::debug!(name = about.name, reason, %error, "cannot write an event");
                }
            }
        };
        (Self(queue), writing)
    }

    /// Has it written some time, unless too many wait already.
    pub(crate) fn tell(&self, news: News) {
        if self.0.try_send(news).is_err() {
            tracing::debug!("too many events wait; one was dropped");
        }
    }
}
