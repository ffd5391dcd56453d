//! Explanations as tables.

use super::ehpa::EhpaExplanation;
use super::judge::Explanation;
use super::lines::{Condition, EventLine, Wait};
use crate::output::{Document, Row, Table, or_absent};

/// Number of pods in the table; JSON and YAML have all.
const MAX_PODS: usize = 20;

pub(super) fn document(explanation: &Explanation) -> Document {
    let pods = &explanation.pods;
    let overview = Row::plain([
        explanation.namespace.clone(),
        explanation.vpa.clone(),
        explanation.target.clone(),
        explanation.update_mode.clone(),
        format!("{} of {}", pods.with_target, pods.total),
        format!("{} of {}", pods.within_bounds, pods.total),
    ]);
    let mut tables = vec![
        Table::new(
            "VPA",
            "namespace|VPA|target|mode| pods with the target| pods within the bounds",
            [overview],
        ),
        Table::of(
            "Recommended requests",
            "container|resource| uncapped target=uncappedTarget| target\
             | lower bound=lowerBound| upper bound=upperBound|changed by=changedBy",
            &explanation.recommendations,
        ),
    ];
    let mut others = vec![
        Table::new("Sizing policy", "field|value", policy(explanation)),
        Table::of(
            "Steps to the target (from the checkpoints)",
            "container|resource|step| result=value",
            &explanation.steps,
        ),
        Table::of(
            "History (checkpoints)",
            "container| CPU samples=count| hours|first sample=firstSample|last sample=lastSample",
            &explanation.samples,
        ),
        Table::of(
            "Pods",
            "pod|has the target=hasTarget|within the bounds=isWithinBounds\
             |requests that differ=differences|changes at creation=updates",
            &pods.list[..pods.list.len().min(MAX_PODS)],
        ),
        waits("Why not applied", &explanation.waits),
    ];
    others.extend(conditions_and_events(
        &explanation.conditions,
        &explanation.events,
    ));
    tables.extend(others.into_iter().filter(|table| !table.rows.is_empty()));
    let mut notes = explanation.notes.clone();
    if pods.list.len() > MAX_PODS {
        let more = pods.list.len() - MAX_PODS;
        notes.push(format!("{more} more pods are in the output of -o json."));
    }
    Document {
        title: "Explanation".to_owned(),
        tables,
        notes,
        data: serde_json::to_value(explanation).unwrap_or_default(),
    }
}

fn policy(explanation: &Explanation) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |field: &str, value: String| rows.push(Row::plain([field.to_owned(), value]));
    if let Some(policy) = &explanation.policy {
        row("policy", format!("{}/{}", policy.kind, policy.name));
        for (setting, value) in &policy.settings {
            let is_method = setting == "policy";
            row(if is_method { "method" } else { setting }, value.clone());
        }
        for it in &policy.conditions {
            let text = format!("{}: {}: {}", it.status, it.reason, it.message);
            row(&format!("condition {}", it.kind), text);
        }
        for object in &policy.conflicts_with {
            row("in conflict with", object.clone());
        }
    }
    rows
}

/// The replicas of an EHPA's workload.
pub(super) fn of_ehpa(explanation: &EhpaExplanation) -> Document {
    let replicas = explanation.replicas;
    let strategy = match replicas.specific {
        Some(specific) => format!("{}, specificReplicas {specific}", explanation.strategy),
        None => explanation.strategy.clone(),
    };
    let overview = Row::plain([
        explanation.namespace.clone(),
        explanation.ehpa.clone(),
        explanation.target.clone(),
        strategy,
        or_absent(explanation.hpa.as_ref()),
        or_absent(replicas.current),
        or_absent(replicas.desired),
        replicas.min.to_string(),
        replicas.max.to_string(),
        or_absent(explanation.last_scale_time),
    ]);
    let mut tables = vec![
        Table::new(
            "EHPA",
            "namespace|EHPA|target|strategy|HPA| replicas| desired| minimum| maximum|last change",
            [overview],
        ),
        Table::of(
            "Metrics",
            "metric=name|source| current| target\
             | predicted maximum of the workload=predictedMaximum",
            &explanation.metrics,
        ),
        Table::of(
            "Prediction",
            "method| window in seconds=windowSeconds| pods ready after seconds=podReadySeconds",
            explanation.prediction.as_slice(),
        ),
        Table::of(
            "Scale points",
            "resource|container| request when fixed=averageRequest\
             | amount per pod that adds replicas=averageValue",
            &explanation.scale_points,
        ),
        waits("Why the replicas do not change", &explanation.waits),
    ];
    tables.extend(conditions_and_events(
        &explanation.conditions,
        &explanation.events,
    ));
    tables.retain(|table| !table.rows.is_empty());
    Document {
        title: "Explanation".to_owned(),
        tables,
        notes: explanation.notes.clone(),
        data: serde_json::to_value(explanation).unwrap_or_default(),
    }
}

fn waits(title: &str, waits: &[Wait]) -> Table {
    Table::of(title, "reason|message", waits)
}

fn conditions_and_events(conditions: &[Condition], events: &[EventLine]) -> [Table; 2] {
    let columns = "type|status|reason|since|message";
    [
        Table::of("Conditions", columns, conditions),
        Table::of("Events", "time|object|reason|message", events),
    ]
}
