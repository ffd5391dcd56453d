//! Tables and JSON of a scan.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ScannedContainer;
use crate::output::{Document, Table};
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
        let sums = |change: Change, unit: f64| change.amounts().map(|it| pods * it / unit);
        let [present, recommended] = sums(container.cpu.amounts, 1000.0);
        self.requested_cpu_cores += present;
        self.recommended_cpu_cores += recommended;
        let [present, recommended] = sums(container.memory.amounts, 1024.0);
        self.requested_memory_gib += present;
        self.recommended_memory_gib += recommended;
        self.savings_per_month += container.savings_per_month;
    }
}

pub(crate) fn document(scanned: &[ScannedContainer], prices: &Prices) -> Document {
    let mut namespaces: BTreeMap<&str, Totals> = BTreeMap::new();
    let mut total = Totals::default();
    for container in scanned {
        let namespace = namespaces.entry(&container.id.namespace);
        namespace.or_default().add(container);
        total.add(container);
    }
    let data = serde_json::json!({
        "currency": prices.currency,
        "containers": scanned,
        "namespaces": namespaces,
        "total": total,
    });
    let mut sums: Vec<(&str, &Totals)> = namespaces.iter().map(|(name, it)| (*name, it)).collect();
    sums.push(("total", &total));
    Document {
        title: "Plimsoll scan".to_owned(),
        tables: vec![
            containers(scanned),
            Table::of(
                "Namespaces",
                "Namespace=0| Containers=1/containers| Critical=1/critical| Warnings=1/warnings\
                 | CPU cores=1/requestedCpuCores:2| Recommended cores=1/recommendedCpuCores:2\
                 | Memory GiB=1/requestedMemoryGib:2| Recommended GiB=1/recommendedMemoryGib:2\
                 | Savings per month=1/savingsPerMonth:2",
                sums,
            ),
        ],
        notes: vec![format!(
            "Savings in {} per month at {} per core and hour and {} per GiB and hour, for the pods of the last hour.",
            prices.currency, prices.cpu_core_hour, prices.memory_gib_hour
        )],
        data,
    }
}

fn containers(scanned: &[ScannedContainer]) -> Table {
    let mut table = Table::of(
        "Containers",
        "Namespace=namespace|Workload=workload|Container=container| Pods=pods| CPU=cpu/request\
         | CPU recommended=cpu/recommended| Memory=memory/request\
         | Memory recommended=memory/recommended| Savings per month=savingsPerMonth:2\
         |Severity=severity|Finding",
        scanned,
    );
    for (row, container) in table.rows.iter_mut().zip(scanned) {
        let ScannedContainer { cpu, memory, .. } = container;
        row.severity = Some(container.severity);
        row.cells.pop();
        row.cells.push(if memory.severity > cpu.severity {
            format!("memory: {}", memory.reason)
        } else {
            format!("cpu: {}", cpu.reason)
        });
    }
    table
}
