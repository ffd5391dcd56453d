//! An explanation of replicas as tables.

use super::judge::{EhpaExplanation, Replicas};
use super::metrics::Metric;
use crate::explain::document::{ABSENT, conditions, events, or_absent, table, time, waits};
use crate::output::{Document, Row, Table};

/// The explanation as tables.
pub(in crate::explain) fn document(explanation: &EhpaExplanation) -> Document {
    let others = [
        metrics(&explanation.metrics),
        prediction(explanation),
        scale_points(explanation),
        waits("Why the replicas do not change", &explanation.waits),
        conditions(&explanation.conditions),
        events(&explanation.events),
    ];
    let others = others.into_iter().filter(|table| !table.rows.is_empty());
    Document {
        title: "Explanation".to_owned(),
        tables: std::iter::once(overview(explanation))
            .chain(others)
            .collect(),
        notes: explanation.notes.clone(),
        data: serde_json::to_value(explanation).unwrap_or_default(),
    }
}

fn number(number: Option<i32>) -> String {
    number.map_or_else(|| ABSENT.to_owned(), |number| number.to_string())
}

fn overview(explanation: &EhpaExplanation) -> Table {
    let Replicas {
        current,
        desired,
        min,
        max,
        specific,
    } = explanation.replicas;
    let strategy = match specific {
        Some(specific) => format!("{}, specificReplicas {specific}", explanation.strategy),
        None => explanation.strategy.clone(),
    };
    let row = Row::plain([
        explanation.namespace.clone(),
        explanation.ehpa.clone(),
        explanation.target.clone(),
        strategy,
        or_absent(explanation.hpa.as_ref()),
        number(current),
        number(desired),
        min.to_string(),
        max.to_string(),
        time(explanation.last_scale_time),
    ]);
    let columns = [
        "namespace",
        "EHPA",
        "target",
        "strategy",
        "HPA",
        " replicas",
        " desired",
        " minimum",
        " maximum",
        "last change",
    ];
    table("EHPA", &columns, vec![row])
}

fn metrics(metrics: &[Metric]) -> Table {
    let rows = metrics.iter().map(|it| {
        let maximum = it.predicted_maximum.map(|it| it.to_string());
        Row::plain([
            it.name.clone(),
            it.source.to_owned(),
            or_absent(it.current.as_ref()),
            or_absent(it.target.as_ref()),
            or_absent(maximum.as_ref()),
        ])
    });
    let columns = [
        "metric",
        "source",
        " current",
        " target",
        " predicted maximum of the workload",
    ];
    table("Metrics", &columns, rows.collect())
}

fn prediction(explanation: &EhpaExplanation) -> Table {
    let rows = explanation.prediction.iter().map(|it| {
        Row::plain([
            it.method.clone(),
            it.window_seconds.to_string(),
            number(it.pod_ready_seconds),
        ])
    });
    let columns = ["method", " window in seconds", " pods ready after seconds"];
    table("Prediction", &columns, rows.collect())
}

fn scale_points(explanation: &EhpaExplanation) -> Table {
    let rows = explanation.scale_points.iter().map(|it| {
        Row::plain([
            it.resource.clone(),
            or_absent(it.container.as_ref()),
            it.average_request.clone(),
            it.average_value.clone(),
        ])
    });
    let columns = [
        "resource",
        "container",
        " request when fixed",
        " amount per pod that adds replicas",
    ];
    table("Scale points", &columns, rows.collect())
}
