//! Figures of a recommender, as a table with a column per measurement.

use std::collections::BTreeMap;

/// Averages over some rounds.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Seconds of each step of the loop.
    pub(crate) steps: BTreeMap<String, f64>,
    /// Seconds of all steps that follow each other.
    pub(crate) full_loop: f64,
    /// Statuses and checkpoints written per second.
    pub(crate) writes: f64,
    /// Cores that each program uses.
    pub(crate) cores: BTreeMap<String, f64>,
    /// Resident memory of the recommender in megabytes, at the end and at most.
    pub(crate) resident: (f64, f64),
}

/// Prints a row per figure.
pub(crate) fn print(columns: &[(String, Figures)]) {
    let row = |name: &str, decimals: usize, value: &dyn Fn(&Figures) -> Option<f64>| {
        let values = columns.iter().map(|(_, figures)| {
            let value = value(figures).map(|value| format!("{value:.decimals$}"));
            format!("{:>16}", value.unwrap_or_default())
        });
        println!("    {name:<34}{}", values.collect::<String>());
    };
    let titles = columns.iter().map(|(title, _)| format!("{title:>16}"));
    println!("    {:<34}{}", "", titles.collect::<String>());
    let names = |part: fn(&Figures) -> &BTreeMap<String, f64>| {
        let names = columns.iter().flat_map(move |(_, it)| part(it).keys());
        names.cloned().collect::<std::collections::BTreeSet<_>>()
    };
    row("full loop, s", 2, &|it| Some(it.full_loop));
    for name in names(|it| &it.steps) {
        row(&format!("  {name}"), 2, &|it| it.steps.get(&name).copied());
    }
    row("statuses and checkpoints, 1/s", 0, &|it| Some(it.writes));
    for name in names(|it| &it.cores) {
        row(&format!("cores of {name}"), 2, &|it| {
            it.cores.get(&name).copied()
        });
    }
    row("resident memory, MB", 0, &|it| Some(it.resident.0));
    row("  at most", 0, &|it| Some(it.resident.1));
}
