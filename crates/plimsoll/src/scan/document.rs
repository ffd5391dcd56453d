//! Tables and JSON of a scan.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use model::unit_slip;
use serde::{Deserialize, Serialize};

use super::ScannedContainer;
use super::nodes::{self, ScannedNodes};
use super::replicas::{self, ScannedReplicas};
use crate::output::numbers::{digits, money};
use crate::output::{Document, Table};
use crate::prices::Prices;
use crate::severity::{Change, Severity};
use crate::usage::{ContainerId, ContainerUsage, resource_list};

/// The scan of a cluster, or of files, as `-o json` has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scan {
    pub(crate) currency: String,
    pub(crate) containers: Vec<ScannedContainer>,
    pub(super) namespaces: BTreeMap<String, Totals>,
    pub(crate) total: Totals,
    #[serde(skip_deserializing)]
    pub(super) unit_slips: Vec<String>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(super) replicas: Option<Vec<ScannedReplicas>>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(super) nodes: Option<ScannedNodes>,
    /// Highest severity of all containers, with those that a filter of the output hides.
    #[serde(skip)]
    pub(super) worst: Option<Severity>,
    /// Containers and nodes that were not scanned, with the reason.
    #[serde(skip)]
    pub(crate) left_out: Vec<String>,
}

/// Sums over containers.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Totals {
    pub(crate) containers: usize,
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
    fn of(container: &ScannedContainer) -> Self {
        let pods = container.pods as f64;
        let sums = |change: Change, unit: f64| change.amounts().map(|it| pods * it / unit);
        let [requested_cpu_cores, recommended_cpu_cores] = sums(container.cpu.amounts, 1000.0);
        let [requested_memory_gib, recommended_memory_gib] = sums(container.memory.amounts, 1024.0);
        Self {
            containers: 1,
            critical: usize::from(container.severity == Severity::Critical),
            warnings: usize::from(container.severity == Severity::Warning),
            requested_cpu_cores,
            recommended_cpu_cores,
            requested_memory_gib,
            recommended_memory_gib,
            savings_per_month: container.savings_per_month,
        }
    }

    /// Costs per month of the present and of the recommended requests.
    pub(crate) fn costs(&self, prices: &Prices) -> [f64; 2] {
        let (cpu, memory) = (self.requested_cpu_cores, self.requested_memory_gib);
        let present = prices.month(1000.0 * cpu, 1024.0 * memory);
        [present, present - self.savings_per_month]
    }

    /// The sums in words, with the mean CPU usage in cores and the number of too small requests.
    pub(crate) fn sentence(
        &self,
        used_cores: Option<f64>,
        too_small: usize,
        currency: &str,
    ) -> String {
        let change = |saved: f64, amount: String, words: [&str; 2]| {
            let word = words[usize::from(saved < 0.0)];
            format!("{amount} {word}")
        };
        let cpu = self.requested_cpu_cores - self.recommended_cpu_cores;
        let memory = self.requested_memory_gib - self.recommended_memory_gib;
        let saved = self.savings_per_month;
        let mut changes = Vec::new();
        for (amount, unit, words) in [
            (cpu, " cores", ["fewer", "more"]),
            (memory, " GiB of memory", ["less", "more"]),
        ] {
            // What is shown as zero is no change.
            let text = digits(amount.abs());
            if text != "0" {
                changes.push(change(amount, text + unit, words));
            }
        }
        let costs = change(saved, money(saved.abs(), currency), ["less", "more"]);
        changes.push(format!("about {costs} a month"));
        let (containers, s) = match self.containers {
            1 => ("container".to_owned(), "s"),
            count => (format!("{} containers", digits(count as f64)), ""),
        };
        let used = used_cores.map(|cores| format!(" and use{s} {}", digits(cores)));
        let used = used.unwrap_or_default();
        format!(
            "Your {containers} request{s} {} cores{used}. With the recommended sizes: {}. {} too small.",
            digits(self.requested_cpu_cores),
            changes.join(", "),
            match too_small {
                0 => "No container is".to_owned(),
                1 => "1 container is".to_owned(),
                count => format!("{count} containers are"),
            }
        )
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.containers += other.containers;
        self.critical += other.critical;
        self.warnings += other.warnings;
        self.requested_cpu_cores += other.requested_cpu_cores;
        self.recommended_cpu_cores += other.recommended_cpu_cores;
        self.requested_memory_gib += other.requested_memory_gib;
        self.recommended_memory_gib += other.recommended_memory_gib;
        self.savings_per_month += other.savings_per_month;
    }
}

impl Scan {
    pub(crate) fn new(
        containers: Vec<ScannedContainer>,
        left_out: &[ContainerId],
        prices: &Prices,
    ) -> Self {
        let mut namespaces: BTreeMap<String, Totals> = BTreeMap::new();
        let mut total = Totals::default();
        for container in &containers {
            let namespace = namespaces.entry(container.id.namespace.clone());
            *namespace.or_default() += Totals::of(container);
            total += Totals::of(container);
        }
        let left_out = left_out.iter();
        Self {
            currency: prices.currency.clone(),
            containers,
            namespaces,
            total,
            unit_slips: Vec::new(),
            replicas: None,
            nodes: None,
            worst: None,
            left_out: left_out
                .map(|id| format!("{id}: less than an hour of usage"))
                .collect(),
        }
    }

    pub(crate) fn document(&self, prices: &Prices) -> Document {
        let mut tables = vec![containers(&self.containers), self.totals()];
        tables.extend(self.replicas.as_deref().map(replicas::table));
        tables.extend(self.nodes.as_ref().map(nodes::table));
        let mut notes = vec![prices.note()];
        notes.extend_from_slice(&self.unit_slips);
        Document {
            title: "Plimsoll scan".to_owned(),
            tables,
            notes,
            data: serde_json::json!(self),
        }
    }

    /// Sums of the namespaces, and of all.
    pub(crate) fn totals(&self) -> Table {
        let mut sums: Vec<(&str, &Totals)> = self.namespaces().collect();
        sums.push(("total", &self.total));
        totals("Namespaces", &sums)
    }

    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (&str, &Totals)> {
        self.namespaces.iter().map(|(name, it)| (name.as_str(), it))
    }
}

/// Sentences about requests and limits whose unit is probably a slip.
pub(super) fn unit_slips(usage: &[ContainerUsage]) -> Vec<String> {
    let mut slips = Vec::new();
    for container in usage {
        let (requests, limits) = (container.requests, container.limits);
        for (field, resources) in [("requests", requests), ("limits", limits)] {
            let list = resource_list(resources);
            slips.extend(list.iter().filter_map(|(resource, quantity)| {
                let slip = unit_slip(resource, quantity)?;
                Some(format!("{}: {field}[{resource}]: {slip}.", container.id))
            }));
        }
    }
    slips
}

/// Sums by name.
pub(super) fn totals(title: &str, sums: &[(&str, &Totals)]) -> Table {
    Table::of(
        title,
        "Namespace=0| Containers=1/containers| Critical=1/critical| Warnings=1/warnings\
         | CPU cores=1/requestedCpuCores:2| Recommended cores=1/recommendedCpuCores:2\
         | Memory GiB=1/requestedMemoryGib:2| Recommended GiB=1/recommendedMemoryGib:2\
         | Savings per month=1/savingsPerMonth:2",
        sums,
    )
}

pub(super) fn containers(scanned: &[ScannedContainer]) -> Table {
    let mut table = Table::of(
        "Containers",
        "Namespace=namespace|Workload=workload|Container=container| Pods=pods| CPU=cpu/request\
         | CPU recommended=cpu/recommended| Memory=memory/request\
         | Memory recommended=memory/recommended| Savings per month=savingsPerMonth:2\
         |Severity=severity|Finding",
        scanned,
    );
    for (row, container) in table.rows.iter_mut().zip(scanned) {
        row.severity = Some(container.severity);
        row.cells[10] = container.finding();
    }
    let lines = |it: &ScannedContainer| Some([it.cpu.line.clone()?, it.memory.line.clone()?]);
    let lines: Option<Vec<_>> = scanned.iter().map(lines).collect();
    if let Some(lines) = lines.filter(|lines| !lines.is_empty()) {
        // Behind the name of the container.
        table
            .columns
            .splice(3..3, ["CPU over time", "Memory over time"]);
        for (row, lines) in table.rows.iter_mut().zip(lines) {
            row.cells.splice(3..3, lines);
        }
    }
    table
}
