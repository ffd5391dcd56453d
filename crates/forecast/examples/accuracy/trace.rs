//! Series from CSV files, averaged into slots of at least five minutes.

use std::collections::BTreeMap;
use std::path::Path;

/// One series. Missing slots are `None`.
pub(crate) struct Trace {
    pub(crate) name: String,
    pub(crate) slot_seconds: u32,
    /// The number of the first slot since 1970.
    pub(crate) first_slot: i64,
    pub(crate) slots: Vec<Option<f64>>,
}

pub(crate) fn read(folder: &Path, filter: &str) -> Result<Vec<Trace>, String> {
    let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| problem(&error))? {
        paths.push(entry.map_err(|error| problem(&error))?.path());
    }
    paths.sort();
    let mut traces = Vec::new();
    for path in paths
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
    {
        let text = std::fs::read_to_string(path).map_err(|error| problem(&error))?;
        let file = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        traces.extend(
            series(file, &text)?
                .into_iter()
                .filter(|trace| trace.name.contains(filter)),
        );
    }
    Ok(traces)
}

fn series(file: &str, text: &str) -> Result<Vec<Trace>, String> {
    let step = file
        .rsplit("__")
        .next()
        .and_then(|end| end.strip_suffix('s'))
        .and_then(|step| step.parse::<u32>().ok());
    let slot_seconds = step
        .ok_or_else(|| format!("{file}: the name does not end in __STEPs"))?
        .max(300);
    let mut lines = text.lines();
    let names: Vec<&str> = lines
        .next()
        .unwrap_or_default()
        .split(',')
        .skip(1)
        .collect();
    let mut sums: Vec<BTreeMap<i64, (f64, u32)>> = vec![BTreeMap::new(); names.len()];
    for line in lines {
        let mut cells = line.split(',');
        let second = cells.next().and_then(|cell| cell.parse::<i64>().ok());
        let slot = second
            .ok_or_else(|| format!("{file}: {line}"))?
            .div_euclid(i64::from(slot_seconds));
        for (sums, cell) in sums.iter_mut().zip(cells) {
            if let Ok(value) = cell.parse::<f64>() {
                let (sum, count) = sums.entry(slot).or_default();
                *sum += value;
                *count += 1;
            }
        }
    }
    let mut parts = file.split("__");
    let (source, of) = (
        parts.next().unwrap_or(file),
        parts.next().unwrap_or_default(),
    );
    // A file with one series is identified by its own name.
    let called = |name: &str| {
        if name == "value" {
            of.to_owned()
        } else {
            name.to_owned()
        }
    };
    let filled = names.into_iter().zip(sums).filter_map(|(name, sums)| {
        let (first_slot, last) = (*sums.first_key_value()?.0, *sums.last_key_value()?.0);
        let mean = |slot: i64| sums.get(&slot).map(|(sum, count)| sum / f64::from(*count));
        let slots = (first_slot..=last).map(mean).collect();
        Some(Trace {
            name: format!("{source} {}", called(name)),
            slot_seconds,
            first_slot,
            slots,
        })
    });
    Ok(filled.collect())
}
