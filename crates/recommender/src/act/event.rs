//! Events about `VerticalPodAutoscaler` objects: that history cannot be fetched, and that it has come after all; that a
//! recommendation is held to what can be scheduled, and that it no longer is.
//!
//! They tell people what the condition tells programs, so one that cannot be written is no failure.

use cluster::Autoscaler;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::decide::HistoryNews;
use crate::schedulable::CapNews;

/// Who reports.
pub(super) const CONTROLLER: &str = "plimsoll-recommender";

/// Writes events.
#[derive(Clone)]
pub(super) struct Events(Recorder);

impl Events {
    pub(super) fn new(client: Client) -> Self {
        Self(Recorder::new(client, Reporter { controller: CONTROLLER.to_owned(), instance: None }))
    }

    /// Tells of an object what has changed about its history.
    pub(super) async fn history(&self, autoscaler: &Autoscaler, news: HistoryNews<'_>) {
        self.publish(autoscaler, &history_event(news)).await;
    }

    /// Tells of an object what has changed about what it is held to.
    pub(super) async fn caps(&self, autoscaler: &Autoscaler, news: CapNews<'_>) {
        self.publish(autoscaler, &caps_event(news)).await;
    }

    async fn publish(&self, autoscaler: &Autoscaler, event: &Event) {
        if let Err(error) = self.0.publish(event, &autoscaler.reference()).await {
            tracing::debug!(autoscaler = %autoscaler.key, reason = event.reason, %error, "cannot write an event");
        }
    }
}

fn history_event(news: HistoryNews) -> Event {
    let (type_, reason, note) = match news {
        HistoryNews::Missing(why) => (EventType::Warning, "HistoryMissing", why),
        HistoryNews::Come => (EventType::Normal, "HistoryFetched", "History has come from Prometheus"),
    };
    event(type_, reason, "FetchHistory", note)
}

fn caps_event(news: CapNews) -> Event {
    let (type_, reason, note) = match news {
        CapNews::Capped(message) => (EventType::Warning, "RecommendationCapped", message),
        CapNews::Free => (EventType::Normal, "RecommendationUncapped", "What is recommended can be scheduled as it is"),
    };
    event(type_, reason, "CapToSchedulable", note)
}

fn event(type_: EventType, reason: &str, action: &str, note: &str) -> Event {
    Event { type_, reason: reason.to_owned(), note: Some(note.to_owned()), action: action.to_owned(), secondary: None }
}
