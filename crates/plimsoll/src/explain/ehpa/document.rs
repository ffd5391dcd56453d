//! An explanation of replicas as tables.

use super::judge::EhpaExplanation;
use crate::explain::document::{conditions_and_events, waits};
use crate::output::{Document, Row, Table, or_absent};

pub(in crate::explain) fn document(explanation: &EhpaExplanation) -> Document {
    let mut tables = vec![
        Table::new(
            "EHPA",
            "namespace|EHPA|target|strategy|HPA| replicas| desired| minimum| maximum|last change",
            [overview(explanation)],
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

fn overview(explanation: &EhpaExplanation) -> Row {
    let replicas = explanation.replicas;
    let strategy = match replicas.specific {
        Some(specific) => format!("{}, specificReplicas {specific}", explanation.strategy),
        None => explanation.strategy.clone(),
    };
    Row::plain([
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
    ])
}
