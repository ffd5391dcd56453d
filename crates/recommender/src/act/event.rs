//! Events: what people are told of objects. Of `VerticalPodAutoscaler` objects they are told that
//! history cannot be fetched, and that it has come after all; that a recommendation is held to what
//! can be scheduled, and that it no longer is.
//!
//! Events tell people what conditions tell programs, so one that cannot be written is no failure.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use view::Autoscaler;

use vertical::schedulable::CapChange;
use vertical::status::HistoryChange;

/// The most characters of a note. The API server takes notes of up to 1024 bytes; a character here
/// has one, but for a few in words of others.
const MOST_OF_NOTE: usize = 1000;

/// Who reports.
pub(super) const CONTROLLER: &str = "plimsoll-recommender";

/// Writes events.
#[derive(Clone)]
pub(super) struct Events(Recorder);

impl Events {
    pub(super) fn new(client: Client) -> Self {
        Self(Recorder::new(
            client,
            Reporter {
                controller: CONTROLLER.to_owned(),
                instance: None,
            },
        ))
    }

    /// Tells of an object what has changed about its history.
    pub(super) async fn history(&self, autoscaler: &Autoscaler, news: HistoryChange<'_>) {
        self.record(&autoscaler.reference(), &history_event(news))
            .await;
    }

    /// Tells of an object what has changed about what it is held to.
    pub(super) async fn caps(&self, autoscaler: &Autoscaler, news: CapChange<'_>) {
        self.record(&autoscaler.reference(), &caps_event(news))
            .await;
    }

    /// Tells people of an object.
    pub(super) async fn record(&self, object: &ObjectReference, event: &Event) {
        if let Err(error) = self.0.publish(event, object).await {
            let (kind, namespace, name) = (&object.kind, &object.namespace, &object.name);
            tracing::debug!(kind, namespace, name, reason = event.reason, %error, "cannot write an event");
        }
    }
}

fn history_event(news: HistoryChange) -> Event {
    let (type_, reason, note) = match news {
        HistoryChange::Missing(why) => (EventType::Warning, "HistoryMissing", why),
        HistoryChange::Fetched => (
            EventType::Normal,
            "HistoryFetched",
            "History has come from Prometheus",
        ),
    };
    event(type_, reason, "FetchHistory", note)
}

fn caps_event(news: CapChange) -> Event {
    let (type_, reason, note) = match news {
        CapChange::Capped(message) => (EventType::Warning, "RecommendationCapped", message),
        CapChange::Uncapped => (
            EventType::Normal,
            "RecommendationUncapped",
            "What is recommended can be scheduled as it is",
        ),
    };
    event(type_, reason, "CapToSchedulable", note)
}

/// An event with this in its note.
pub(super) fn event(type_: EventType, reason: &str, action: &str, note: &str) -> Event {
    let note = Some(note.chars().take(MOST_OF_NOTE).collect());
    Event {
        type_,
        reason: reason.to_owned(),
        note,
        action: action.to_owned(),
        secondary: None,
    }
}
