//! The files of the collection, with the units of their columns.

use std::path::Path;

use replay::{Resource, Series};

use crate::csv;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// One percent of an assumed machine of 4 cores, in millicores.
const CORES: f64 = 40.0;
/// One percent of an assumed machine of 8 GiB, in MiB.
const GIB: f64 = 81.92;

/// The series of one resource in one file.
pub(crate) struct Set {
    pub(crate) name: &'static str,
    pub(crate) resource: Resource,
    pub(crate) series: Vec<Series>,
    pub(crate) warm_up: i64,
}

/// A file, the unit of its columns, and part of the names of those with CPU or memory; `None` for a
/// resource that it does not have.
type File = (&'static str, [Option<(f64, &'static str)>; 2]);

const FILES: [File; 9] = [
    cpu("vertical/bitbrains-rnd__60vms__cpu-millicores__300s", 1.0),
    memory("vertical/bitbrains-rnd__60vms__mem-mib__300s", 1.0),
    cpu("vertical/azurevm2017__30vms__cpu-avg-pct__300s", CORES),
    cpu("vertical/azurevm2017__30vms__cpu-max-pct__300s", CORES),
    both(
        "vertical/smd__5machines__cpu-mem-normpct__60s",
        [(CORES, "_cpu"), (GIB, "_mem")],
    ),
    both(
        "vertical/jumpstarter__6services__c17cpu-c6mem-c12traffic__300s",
        [(CORES, "_c17"), (GIB, "_c6")],
    ),
    cpu(GCD_CPU, CORES),
    memory(GCD_MEMORY, GIB),
    both(
        "adversarial/SYNTHETIC__seed101__cpu-millicores_mem-mib_rps__60s",
        [(1.0, "cpu_"), (1.0, "mem_")],
    ),
];
/// Files of jobs, most of which are short.
const GCD_CPU: &str = "vertical/gcd2011__120jobs__cpu-pct__300s";
const GCD_MEMORY: &str = "vertical/gcd2011__120jobs__mem-pct__300s";

const fn cpu(name: &'static str, unit: f64) -> File {
    (name, [Some((unit, "")), None])
}

const fn memory(name: &'static str, unit: f64) -> File {
    (name, [None, Some((unit, ""))])
}

const fn both(name: &'static str, [cpu, memory]: [(f64, &'static str); 2]) -> File {
    (name, [Some(cpu), Some(memory)])
}

/// Reads those of the known files that exist.
pub(crate) fn read(folder: &Path) -> Result<Vec<Set>, String> {
    let requests = std::fs::read_to_string(folder.join("vertical/bitbrains-rnd__meta.csv"));
    let requests = requests.unwrap_or_default();
    let mut sets = Vec::new();
    let resources = FILES.iter().flat_map(|(name, columns)| {
        let columns = [Resource::Cpu, Resource::Memory].into_iter().zip(columns);
        columns.filter_map(move |(resource, columns)| Some((*name, resource, (*columns)?)))
    });
    for (name, resource, (unit, part)) in resources {
        let path = folder.join(format!("{name}.csv"));
        if !path.exists() {
            continue;
        }
        let series = csv::series(&csv::read(&path)?, unit);
        let series = series.map_err(|error| format!("{}: {error}", path.display()))?;
        let of_part = series.into_iter().filter(|(name, _)| name.contains(part));
        let series = of_part.map(|(machine, mut series)| {
            if name.contains("bitbrains") {
                let known = provisioned(&requests, &machine, resource);
                series.provisioned = known.unwrap_or(series.provisioned);
            }
            series
        });
        let is_short = name == GCD_CPU || name == GCD_MEMORY;
        sets.push(Set {
            name,
            resource,
            series: series.collect(),
            warm_up: if is_short { HOUR } else { 8 * DAY },
        });
    }
    Ok(sets)
}

/// The provisioned cores or MiB of a machine, from the third and fourth columns.
fn provisioned(requests: &str, name: &str, resource: Resource) -> Option<f64> {
    let mut rows = requests.lines().map(|line| line.split(','));
    let mut row = rows.find(|row| row.clone().next() == Some(name))?;
    match resource {
        Resource::Cpu => Some(row.nth(2)?.parse::<f64>().ok()? * 1000.0),
        Resource::Memory => row.nth(3)?.parse().ok(),
    }
}
