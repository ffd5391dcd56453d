//! Tables and JSON of a scan.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ScannedContainer;
use crate::output::{Document, Row, Table};
use crate::prices::Prices;
use crate::severity::{Change, Severity};

/// Sums over containers.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Totals {
    containers: usize,
    critical: usize,
    warnings: usize,
    /// Present and recommended CPU of all pods in cores; containers without a request have none.
    requested_cpu_cores: f64,
    recommended_cpu_cores: f64,
    requested_memory_gib: f64,
    recommended_memory_gib: f64,
    savings_per_month: f64,
}

impl Totals {
    fn add(&mut self, container: &ScannedContainer) {
        self.containers += 1;
        self.critical += usize::from(container.severity == Severity::Critical);
        self.warnings += usize::from(container.severity == Severity::Warning);
        let pods = container.pods as f64;
        let sums = |change: Change, unit: f64| {
            // Without a recommendation the present request stays.
            let amounts = [change.present, change.recommended.or(change.present)];
            amounts.map(|amount| pods * amount.unwrap_or(0.0) / unit)
        };
        let [present, recommended] = sums(container.cpu.amounts, 1000.0);
        self.requested_cpu_cores += present;
        self.recommended_cpu_cores += recommended;
        let [present, recommended] = sums(container.memory.amounts, 1024.0);
        self.requested_memory_gib += present;
        self.recommended_memory_gib += recommended;
        self.savings_per_month += container.savings_per_month;
    }

    fn row(&self, name: &str) -> Row {
        Row::plain([
            name.to_owned(),
            self.containers.to_string(),
            self.critical.to_string(),
            self.warnings.to_string(),
            format!("{:.2}", self.requested_cpu_cores),
            format!("{:.2}", self.recommended_cpu_cores),
            format!("{:.2}", self.requested_memory_gib),
            format!("{:.2}", self.recommended_memory_gib),
            format!("{:.2}", self.savings_per_month),
        ])
    }
}

/// Tables and JSON of the results.
pub(crate) fn document(scanned: &[ScannedContainer], prices: &Prices) -> Document {
    let mut namespaces: BTreeMap<&str, Totals> = BTreeMap::new();
    let mut total = Totals::default();
    for container in scanned {
        namespaces
            .entry(&container.id.namespace)
            .or_default()
            .add(container);
        total.add(container);
    }
    let data = serde_json::json!({
        "currency": prices.currency,
        "containers": scanned,
        "namespaces": namespaces,
        "total": total,
    });
    let mut sums: Vec<Row> = namespaces.iter().map(|(name, sum)| sum.row(name)).collect();
    sums.push(total.row("total"));
    Document {
        title: "Plimsoll scan".to_owned(),
        tables: vec![
            Table {
                title: "Containers".to_owned(),
                columns: vec![
                    "Namespace",
                    "Workload",
                    "Container",
                    " Pods",
                    " CPU",
                    " CPU recommended",
                    " Memory",
                    " Memory recommended",
                    " Savings per month",
                    "Severity",
                    "Finding",
                ],
                rows: scanned.iter().map(row).collect(),
            },
            Table {
                title: "Namespaces".to_owned(),
                columns: vec![
                    "Namespace",
                    " Containers",
                    " Critical",
                    " Warnings",
                    " CPU cores",
                    " Recommended cores",
                    " Memory GiB",
                    " Recommended GiB",
                    " Savings per month",
                ],
                rows: sums,
            },
        ],
        notes: vec![format!(
            "Savings in {} per month at {} per core and hour and {} per GiB and hour, for the pods of the last hour.",
            prices.currency, prices.cpu_core_hour, prices.memory_gib_hour
        )],
        data,
    }
}

fn row(container: &ScannedContainer) -> Row {
    let ScannedContainer {
        id,
        pods,
        cpu,
        memory,
        severity,
        savings_per_month,
        ..
    } = container;
    let text = |quantity: &Option<String>| quantity.clone().unwrap_or_else(|| "-".to_owned());
    let worse = if memory.severity > cpu.severity {
        format!("memory: {}", memory.reason)
    } else {
        format!("cpu: {}", cpu.reason)
    };
    Row {
        cells: vec![
            id.namespace.clone(),
            id.workload.clone(),
            id.container.clone(),
            pods.to_string(),
            text(&cpu.request),
            text(&cpu.recommended),
            text(&memory.request),
            text(&memory.recommended),
            format!("{savings_per_month:.2}"),
            severity.as_str().to_owned(),
            worse,
        ],
        severity: Some(*severity),
        link: None,
    }
}
