//! Explanations as tables.

use serde_json::Value;

use crate::json::{items, text, texts};
use crate::output::{Document, Row, Table};

/// Number of pods in the table; JSON and YAML have all.
const MAX_PODS: usize = 20;

/// Title of the table of steps.
pub(crate) const STEPS: &str = "Steps to the target (from the checkpoints)";

pub(super) fn of_vpa(data: Value) -> Document {
    let pods = &data["pods"];
    let mut overview = Table::of(
        "VPA",
        "namespace|VPA=vpa|target|mode=updateMode| pods with the target=pods/withTarget\
         | pods within the bounds=pods/withinBounds",
        [&data],
    );
    for cell in &mut overview.rows[0].cells[4..] {
        *cell = format!("{cell} of {}", pods["total"]);
    }
    let list: Vec<&Value> = items(&pods["list"]).collect();
    let tables = vec![
        overview,
        Table::of(
            "Recommended requests",
            "container|resource| uncapped target=uncappedTarget| target\
             | lower bound=lowerBound| upper bound=upperBound|changed by=changedBy",
            &data["recommendations"],
        ),
        Table::new("Sizing policy", "field|value", policy(&data["policy"])),
        Table::of(
            STEPS,
            "container|resource|step| result=value",
            &data["steps"],
        ),
        Table::of(
            "History (checkpoints)",
            "container| CPU samples=count| hours|first sample=firstSample|last sample=lastSample",
            &data["samples"],
        ),
        Table::of(
            "Pods",
            "pod|has the target=hasTarget|within the bounds=isWithinBounds\
             |requests that differ=differences|changes at creation=updates",
            &list[..list.len().min(MAX_PODS)],
        ),
        Table::of("Why not applied", "reason|message", &data["waits"]),
    ];
    let more = list.len().saturating_sub(MAX_PODS);
    let more = (more > 0).then(|| format!("{more} more pods are in the output of -o json."));
    document(tables, 2, more, data)
}

fn policy(policy: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |field: &str, value: String| rows.push(Row::plain([field.to_owned(), value]));
    if !policy.is_null() {
        row("policy", texts(policy, ["kind", "name"]).join("/"));
    }
    for (setting, value) in policy["settings"].as_object().into_iter().flatten() {
        let is_method = setting == "policy";
        let field = if is_method { "method" } else { setting };
        row(field, text(value).to_owned());
    }
    for it in items(&policy["conditions"]) {
        let texts = texts(it, ["status", "reason", "message"]);
        row(
            &format!("condition {}", text(&it["type"])),
            texts.join(": "),
        );
    }
    for object in items(&policy["conflictsWith"]) {
        row("in conflict with", text(object).to_owned());
    }
    rows
}

pub(super) fn of_ehpa(data: Value) -> Document {
    let mut overview = Table::of(
        "EHPA",
        "namespace|EHPA=ehpa|target|strategy|HPA=hpa| replicas=replicas/current\
         | desired=replicas/desired| minimum=replicas/min| maximum=replicas/max\
         |last change=lastScaleTime",
        [&data],
    );
    if let Some(specific) = data["replicas"]["specific"].as_i64() {
        let strategy = &mut overview.rows[0].cells[3];
        *strategy = format!("{strategy}, specificReplicas {specific}");
    }
    let tables = vec![
        overview,
        Table::of(
            "Metrics",
            "metric=name|source| current| target\
             | predicted maximum of the workload=predictedMaximum",
            &data["metrics"],
        ),
        Table::of(
            "Prediction",
            "method| window in seconds=windowSeconds| pods ready after seconds=podReadySeconds",
            data["prediction"].as_object().as_slice(),
        ),
        Table::of(
            "Scale points",
            "resource|container| request when fixed=averageRequest\
             | amount per pod that adds replicas=averageValue",
            &data["scalePoints"],
        ),
        Table::of(
            "Why the replicas do not change",
            "reason|message",
            &data["waits"],
        ),
    ];
    document(tables, 1, None, data)
}

/// The tables that have rows, of which the first ones always count, with conditions and events.
fn document(mut tables: Vec<Table>, always: usize, note: Option<String>, data: Value) -> Document {
    let columns = "type|status|reason|since|message";
    tables.push(Table::of("Conditions", columns, &data["conditions"]));
    tables.push(Table::of(
        "Events",
        "time|object|reason|message",
        &data["events"],
    ));
    let mut number = 0..;
    tables.retain(|table| number.next() < Some(always) || !table.rows.is_empty());
    let notes = items(&data["notes"]).map(|note| text(note).to_owned());
    Document {
        title: "Explanation".to_owned(),
        tables,
        notes: notes.chain(note).collect(),
        data,
    }
}
