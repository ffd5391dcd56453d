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

/// File, resource, unit of a column, part of the names of its columns, warm-up in seconds.
const FILES: [(&str, Resource, f64, &str, i64); 12] = [
    (
        "vertical/bitbrains-rnd__60vms__cpu-millicores__300s",
        Resource::Cpu,
        1.0,
        "",
        8 * DAY,
    ),
    (
        "vertical/bitbrains-rnd__60vms__mem-mib__300s",
        Resource::Memory,
        1.0,
        "",
        8 * DAY,
    ),
    (
        "vertical/azurevm2017__30vms__cpu-avg-pct__300s",
        Resource::Cpu,
        CORES,
        "",
        8 * DAY,
    ),
    (
        "vertical/azurevm2017__30vms__cpu-max-pct__300s",
        Resource::Cpu,
        CORES,
        "",
        8 * DAY,
    ),
    (
        "vertical/smd__5machines__cpu-mem-normpct__60s",
        Resource::Cpu,
        CORES,
        "_cpu",
        8 * DAY,
    ),
    (
        "vertical/smd__5machines__cpu-mem-normpct__60s",
        Resource::Memory,
        GIB,
        "_mem",
        8 * DAY,
    ),
    (
        "vertical/jumpstarter__6services__c17cpu-c6mem-c12traffic__300s",
        Resource::Cpu,
        CORES,
        "_c17",
        8 * DAY,
    ),
    (
        "vertical/jumpstarter__6services__c17cpu-c6mem-c12traffic__300s",
        Resource::Memory,
        GIB,
        "_c6",
        8 * DAY,
    ),
    (
        "vertical/gcd2011__120jobs__cpu-pct__300s",
        Resource::Cpu,
        CORES,
        "",
        HOUR,
    ),
    (
        "vertical/gcd2011__120jobs__mem-pct__300s",
        Resource::Memory,
        GIB,
        "",
        HOUR,
    ),
    (
        "adversarial/SYNTHETIC__seed101__cpu-millicores_mem-mib_rps__60s",
        Resource::Cpu,
        1.0,
        "cpu_",
        8 * DAY,
    ),
    (
        "adversarial/SYNTHETIC__seed101__cpu-millicores_mem-mib_rps__60s",
        Resource::Memory,
        1.0,
        "mem_",
        8 * DAY,
    ),
];

/// Reads those of the known files that exist.
pub(crate) fn read(folder: &Path) -> Result<Vec<Set>, String> {
    let requests = std::fs::read_to_string(folder.join("vertical/bitbrains-rnd__meta.csv"));
    let requests = requests.unwrap_or_default();
    let mut sets = Vec::new();
    for (name, resource, unit, part, warm_up) in FILES {
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
        sets.push(Set {
            name,
            resource,
            series: series.collect(),
            warm_up,
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
