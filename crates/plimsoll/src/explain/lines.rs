//! Conditions and events of an explained object, and its texts, which are bounded and have no control
//! characters.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde::Serialize;
use serde_json::{Value, json};

use crate::json::{items, texts};

/// Maximum number of characters of a text from an object.
const MAX_TEXT: usize = 1_000;
pub(super) const MAX_EVENTS: usize = 20;
const MAX_CONDITIONS: usize = 50;

pub(super) fn plain(value: Value) -> Value {
    match value {
        Value::String(text) => plain_text(&text).into(),
        Value::Array(values) => values.into_iter().map(plain).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields
                .map(|(key, it)| (plain_text(&key), plain(it)))
                .collect()
        }
        other => other,
    }
}

/// The text without control characters, and not longer than [`MAX_TEXT`].
pub(crate) fn plain_text(text: &str) -> String {
    let text = text.replace(['\n', '\r', '\t'], " ");
    let text = text.replace(char::is_control, "\u{fffd}");
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Reason why a change is missing.
pub(super) fn wait(reason: &str, message: impl Into<String>) -> Value {
    json!({"reason": reason, "message": message.into()})
}

/// The first conditions of an object. Those of all kinds have the same fields.
pub(super) fn conditions(conditions: &[impl Serialize]) -> Vec<Value> {
    let first = &conditions[..conditions.len().min(MAX_CONDITIONS)];
    let first = serde_json::to_value(first).unwrap_or_default();
    let conditions = items(&first).map(|it| {
        let [kind, status, reason, message] = texts(it, ["type", "status", "reason", "message"]);
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "since": it["lastTransitionTime"],
        })
    });
    conditions.collect()
}

/// Parts that could not be read, one sentence each, and the names of further objects with the target.
pub(super) fn notes<'a>(
    missing: impl Iterator<Item = &'a String>,
    kind: &str,
    others: &[String],
) -> Vec<String> {
    let further = format!(
        "Further {kind} with the same target: {}.",
        others.join(", ")
    );
    let further = (!others.is_empty()).then_some(further);
    missing.cloned().chain(further).collect()
}

/// An event, or the last change of a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) time: Timestamp,
    /// Reason of the event, or the condition and its status.
    pub(crate) label: String,
    pub(crate) text: String,
    pub(crate) is_warning: bool,
}

/// The latest of these events.
pub(crate) fn marks_of_events(found: &[Event], most: usize) -> Vec<Mark> {
    marks(&plain(json!({"events": events(found, most)})))
}

pub(super) fn marks(explanation: &Value) -> Vec<Mark> {
    let events = items(&explanation["events"]).filter_map(|event| {
        let [time, reason, object, message] = texts(event, ["time", "reason", "object", "message"]);
        Some(Mark {
            time: time.parse().ok()?,
            label: reason.to_owned(),
            text: format!("{object}: {message}"),
            is_warning: event["type"] == "Warning",
        })
    });
    let conditions = items(&explanation["conditions"]).filter_map(|condition| {
        let fields = ["since", "type", "status", "reason", "message"];
        let [since, kind, status, reason, message] = texts(condition, fields);
        Some(Mark {
            time: since.parse().ok()?,
            label: format!("{kind}: {status}"),
            text: format!("{reason}: {message}"),
            is_warning: false,
        })
    });
    events.chain(conditions).collect()
}

/// The latest events, at most `most`, the latest one first.
pub(super) fn events(events: &[Event], most: usize) -> Vec<Value> {
    let time = |event: &Event| {
        let series = event.series.as_ref();
        let series = series.and_then(|series| series.last_observed_time.as_ref());
        let latest = series.or(event.event_time.as_ref()).map(|time| time.0);
        latest.max(event.last_timestamp.as_ref().map(|time| time.0))
    };
    let lines = events.iter().map(|event| {
        let about = &event.involved_object;
        let [kind, name] = [&about.kind, &about.name].map(|it| it.as_deref().unwrap_or_default());
        let object = format!("{kind}/{name}");
        (
            time(event),
            object,
            event.reason.as_deref().unwrap_or_default(),
            event,
        )
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_by(|(time, object, reason, _), (of, about, by, _)| {
        of.cmp(time)
            .then_with(|| (object, reason).cmp(&(about, by)))
    });
    lines.truncate(most);
    let lines = lines.into_iter().map(|(time, object, reason, event)| {
        let [kind, message] =
            [&event.type_, &event.message].map(|it| it.as_deref().unwrap_or_default());
        let time = time.map(|time| time.strftime("%FT%TZ").to_string());
        json!({"time": time, "object": object, "type": kind, "reason": reason, "message": message})
    });
    lines.collect()
}
