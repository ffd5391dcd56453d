//! Tables of sizing decisions on recorded series: every peer and our own policy, their families of
//! operating points, and paired differences at equal risk.

mod frontier;
#[cfg(test)]
mod gates;
pub(crate) mod policies;
pub(crate) mod table;
pub(crate) mod traces;

use std::path::Path;

use replay::Executor;

use crate::Plots;

/// Prints the tables of the known files, of which missing ones are left out.
pub(crate) fn print(folder: &Path, plots: Plots<'_>) -> Result<(), String> {
    let sets = traces::read(folder)?;
    if sets.is_empty() {
        return Err(format!("{} has none of the known files", folder.display()));
    }
    for set in &sets {
        for executor in rules(set) {
            let started = std::time::Instant::now();
            let results = policies::replay(&executor, set);
            table::print(set, &executor, &results);
            let (name, plot) = frontier::plot(set, &executor, &results);
            plots.write(&name, &plot)?;
            eprintln!("{}: {:.1} s", set.name, started.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// Hourly decisions, without and with early raises.
pub(crate) fn rules(set: &traces::Set) -> [Executor; 2] {
    let hourly = Executor {
        warm_up: set.warm_up,
        ..Executor::new(set.resource)
    };
    let early = Executor {
        early_raises: true,
        ..hourly
    };
    [hourly, early]
}
