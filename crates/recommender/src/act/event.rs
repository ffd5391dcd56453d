//! Events. `VerticalPodAutoscaler` objects get events when history cannot be fetched or has
//! arrived, and when the recommendation is capped or no longer is.
//!
//! Conditions have the same information, so a failed event is no error.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use view::Autoscaler;

use vertical::schedulable::CapChange;
use vertical::status::HistoryChange;

/// Maximum number of characters in a note. The API server accepts 1024 bytes, and nearly all
/// characters here have one.
const MOST_OF_NOTE: usize = 1000;

/// Name of the reporting controller.
pub(super) const CONTROLLER: &str = "plimsoll-recommender";

/// Records events.
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

    /// Records a change of an object's history.
    pub(super) async fn history(&self, autoscaler: &Autoscaler, news: HistoryChange<'_>) {
        self.record(&autoscaler.reference(), &history_event(news))
            .await;
    }

    /// Records a change of an object's caps.
    pub(super) async fn caps(&self, autoscaler: &Autoscaler, news: CapChange<'_>) {
        self.record(&autoscaler.reference(), &caps_event(news))
            .await;
    }

    /// Records an event of an object.
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
            "Fetched history from Prometheus",
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
            "The recommendation can be scheduled without a cap",
        ),
    };
    event(type_, reason, "CapToSchedulable", note)
}

/// An event with this note.
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
