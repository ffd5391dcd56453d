//! An explanation as tables.

use jiff::Timestamp;

use super::judge::{Explanation, Recommended};
use super::lines::{Condition, EventLine, Wait};
use crate::output::{Document, Row, Table};

/// Number of pods in the table; JSON and YAML have all.
const MAX_PODS: usize = 20;
/// An absent value.
pub(super) const ABSENT: &str = "-";

/// The explanation as tables.
pub(super) fn document(explanation: &Explanation) -> Document {
    let mut tables = vec![overview(explanation), recommendations(explanation)];
    let others = [
        policy(explanation),
        steps(explanation),
        samples(explanation),
        pods(explanation),
        waits("Why not applied", &explanation.waits),
        conditions(&explanation.conditions),
        events(&explanation.events),
    ];
    tables.extend(others.into_iter().filter(|table| !table.rows.is_empty()));
    let mut notes = explanation.notes.clone();
    if explanation.pods.list.len() > MAX_PODS {
        let more = explanation.pods.list.len() - MAX_PODS;
        notes.push(format!("{more} more pods are in the output of -o json."));
    }
    Document {
        title: "Explanation".to_owned(),
        tables,
        notes,
        data: serde_json::to_value(explanation).unwrap_or_default(),
    }
}

/// A table.
pub(super) fn table(title: &str, columns: &[&'static str], rows: Vec<Row>) -> Table {
    Table {
        title: title.to_owned(),
        columns: columns.to_vec(),
        rows,
    }
}

/// The time, or that it is absent.
pub(super) fn time(time: Option<Timestamp>) -> String {
    time.map_or(ABSENT.to_owned(), |time| time.to_string())
}

/// The text, or that it is absent.
pub(super) fn or_absent(text: Option<&String>) -> String {
    text.cloned().unwrap_or_else(|| ABSENT.to_owned())
}

fn overview(explanation: &Explanation) -> Table {
    let pods = &explanation.pods;
    let row = Row::plain([
        explanation.namespace.clone(),
        explanation.vpa.clone(),
        explanation.target.clone(),
        explanation.update_mode.clone(),
        format!("{} of {}", pods.with_target, pods.total),
        format!("{} of {}", pods.within_bounds, pods.total),
    ]);
    let columns = [
        "namespace",
        "VPA",
        "target",
        "mode",
        " pods with the target",
        " pods within the bounds",
    ];
    table("VPA", &columns, vec![row])
}

fn recommendations(explanation: &Explanation) -> Table {
    let row = |it: &Recommended| {
        Row::plain([
            it.container.clone(),
            it.resource.clone(),
            or_absent(it.uncapped_target.as_ref()),
            it.target.clone(),
            or_absent(it.lower_bound.as_ref()),
            or_absent(it.upper_bound.as_ref()),
            or_absent(it.changed_by.as_ref()),
        ])
    };
    let rows = explanation.recommendations.iter().map(row).collect();
    let columns = [
        "container",
        "resource",
        " uncapped target",
        " target",
        " lower bound",
        " upper bound",
        "changed by",
    ];
    table("Recommended requests", &columns, rows)
}

fn policy(explanation: &Explanation) -> Table {
    let mut rows = Vec::new();
    if let Some(policy) = &explanation.policy {
        let mut row = |field: &str, value: String| rows.push(Row::plain([field.to_owned(), value]));
        row("policy", format!("{}/{}", policy.kind, policy.name));
        for (setting, value) in &policy.settings {
            let name = if setting == "policy" {
                "method"
            } else {
                setting
            };
            row(name, value.clone());
        }
        for it in &policy.conditions {
            let text = format!("{}: {}: {}", it.status, it.reason, it.message);
            row(&format!("condition {}", it.kind), text);
        }
        for object in &policy.conflicts_with {
            row("in conflict with", object.clone());
        }
    }
    table("Sizing policy", &["field", "value"], rows)
}

fn steps(explanation: &Explanation) -> Table {
    let rows = explanation.steps.iter().map(|it| {
        Row::plain([
            it.container.clone(),
            it.resource.clone(),
            it.step.clone(),
            it.value.clone(),
        ])
    });
    let columns = ["container", "resource", "step", " result"];
    table(
        "Steps to the target (from the checkpoints)",
        &columns,
        rows.collect(),
    )
}

fn samples(explanation: &Explanation) -> Table {
    let rows = explanation.samples.iter().map(|it| {
        Row::plain([
            it.container.clone(),
            it.count.to_string(),
            it.hours.to_string(),
            time(it.first_sample),
            time(it.last_sample),
        ])
    });
    let columns = [
        "container",
        " CPU samples",
        " hours",
        "first sample",
        "last sample",
    ];
    table("History (checkpoints)", &columns, rows.collect())
}

fn pods(explanation: &Explanation) -> Table {
    let rows = explanation.pods.list.iter().take(MAX_PODS).map(|it| {
        let yes_or_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let differences = Some(it.differences.join(", ")).filter(|text| !text.is_empty());
        Row::plain([
            it.pod.clone(),
            yes_or_no(it.has_target),
            yes_or_no(it.is_within_bounds),
            or_absent(differences.as_ref()),
            or_absent(it.updates.as_ref()),
        ])
    });
    let columns = [
        "pod",
        "has the target",
        "within the bounds",
        "requests that differ",
        "changes at creation",
    ];
    table("Pods", &columns, rows.collect())
}

/// Reasons why a change is missing.
pub(super) fn waits(title: &str, waits: &[Wait]) -> Table {
    let rows = waits.iter();
    let rows = rows.map(|it| Row::plain([it.reason.to_owned(), it.message.clone()]));
    table(title, &["reason", "message"], rows.collect())
}

/// Conditions of the object.
pub(super) fn conditions(conditions: &[Condition]) -> Table {
    let rows = conditions.iter().map(|it| {
        Row::plain([
            it.kind.clone(),
            it.status.clone(),
            it.reason.clone(),
            time(it.since),
            it.message.clone(),
        ])
    });
    let columns = ["type", "status", "reason", "since", "message"];
    table("Conditions", &columns, rows.collect())
}

/// Events, the latest one first.
pub(super) fn events(events: &[EventLine]) -> Table {
    let rows = events.iter().map(|it| {
        Row::plain([
            time(it.time),
            it.object.clone(),
            it.reason.clone(),
            it.message.clone(),
        ])
    });
    table(
        "Events",
        &["time", "object", "reason", "message"],
        rows.collect(),
    )
}
