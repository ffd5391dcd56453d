//! Texts, conditions and events of objects, bounded and without control characters.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use serde::Serialize;

/// Maximum number of characters of a text from an object.
const MAX_TEXT: usize = 1_000;
const MAX_EVENTS: usize = 20;
const MAX_CONDITIONS: usize = 50;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) since: Option<Timestamp>,
}

/// Reason why a change is missing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Wait {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Wait {
    pub(super) fn new(reason: &'static str, message: &str) -> Self {
        let message = plain(message);
        Self { reason, message }
    }
}

/// The first conditions of an object. Those of all kinds have the same fields.
pub(super) fn conditions(conditions: &[impl Serialize]) -> Vec<Condition> {
    let conditions = conditions.iter().take(MAX_CONDITIONS);
    let conditions = conditions.filter_map(|condition| serde_json::to_value(condition).ok());
    conditions
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            Condition {
                kind: plain(text("type")),
                status: plain(text("status")),
                reason: plain(text("reason")),
                message: plain(text("message")),
                since: text("lastTransitionTime").parse().ok(),
            }
        })
        .collect()
}

/// Event about the explained object or an object of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct EventLine {
    pub(super) time: Option<Timestamp>,
    pub(super) object: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) reason: String,
    pub(super) message: String,
}

/// Parts that could not be read, one sentence each, and the names of further objects with the target.
pub(super) fn notes<'a>(
    missing: impl Iterator<Item = &'a String>,
    kind: &str,
    others: &[String],
) -> Vec<String> {
    let mut notes: Vec<String> = missing.map(|text| plain(text)).collect();
    if !others.is_empty() {
        let others = others.join(", ");
        notes.push(plain(&format!(
            "Further {kind} with the same target: {others}."
        )));
    }
    notes
}

/// The text without control characters, and not longer than [`MAX_TEXT`].
pub(super) fn plain(text: &str) -> String {
    let text = text.replace(['\n', '\r', '\t'], " ");
    let text = text.replace(char::is_control, "\u{fffd}");
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// An event, or the last change of a condition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    pub(crate) time: Timestamp,
    /// Reason of the event, or the condition and its status.
    pub(crate) label: String,
    pub(crate) text: String,
    pub(crate) is_warning: bool,
}

/// The events and changes of conditions with a time.
pub(super) fn marks(events: &[EventLine], conditions: &[Condition]) -> Vec<Mark> {
    let events = events.iter().filter_map(|event| {
        Some(Mark {
            time: event.time?,
            label: event.reason.clone(),
            text: format!("{}: {}", event.object, event.message),
            is_warning: event.kind == "Warning",
        })
    });
    let conditions = conditions.iter().filter_map(|condition| {
        Some(Mark {
            time: condition.since?,
            label: format!("{}: {}", condition.kind, condition.status),
            text: format!("{}: {}", condition.reason, condition.message),
            is_warning: false,
        })
    });
    events.chain(conditions).collect()
}

/// The latest events, the latest one first.
pub(super) fn events(events: &[Event]) -> Vec<EventLine> {
    let time = |event: &Event| {
        let series = event.series.as_ref();
        let series = series.and_then(|series| series.last_observed_time.as_ref());
        let latest = series.or(event.event_time.as_ref()).map(|time| time.0);
        latest.max(event.last_timestamp.as_ref().map(|time| time.0))
    };
    let text = |text: &Option<String>| plain(text.as_deref().unwrap_or_default());
    let object = |it: &ObjectReference| {
        let [kind, name] = [&it.kind, &it.name].map(|text| text.as_deref().unwrap_or_default());
        plain(&format!("{kind}/{name}"))
    };
    let mut lines: Vec<EventLine> = events
        .iter()
        .map(|event| EventLine {
            time: time(event),
            object: object(&event.involved_object),
            kind: text(&event.type_),
            reason: text(&event.reason),
            message: text(&event.message),
        })
        .collect();
    lines.sort_by(|one, other| {
        let by_object = || (&one.object, &one.reason).cmp(&(&other.object, &other.reason));
        other.time.cmp(&one.time).then_with(by_object)
    });
    lines.truncate(MAX_EVENTS);
    lines
}
