//! Tables of sizing decisions on recorded series: every peer and our own policy, their families of
//! operating points, and paired differences at equal risk.
//!
//! `cargo run --release -p replay --example decisions -- TRACES [PLOTS]`
//!
//! The folders `vertical` and `adversarial` in `TRACES` hold CSV files with `unix_seconds` first and
//! one column per series. Files that are missing are left out. A plot of every table is written to
//! the folder `PLOTS`, if that is given.

mod frontier;
mod policies;
mod table;
mod traces;

use std::path::Path;
use std::process::ExitCode;

use replay::Executor;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("usage: decisions TRACES [PLOTS]");
        return ExitCode::FAILURE;
    };
    let plots = arguments.next().filter(|plots| !plots.is_empty());
    let sets = match traces::read(Path::new(&folder)) {
        Ok(sets) if !sets.is_empty() => sets,
        Ok(_) => {
            eprintln!("{folder} has none of the known files");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    for set in &sets {
        let hourly = Executor {
            warm_up: set.warm_up,
            ..Executor::new(set.resource)
        };
        let early = Executor {
            early_raises: true,
            ..hourly
        };
        for executor in [hourly, early] {
            let started = std::time::Instant::now();
            let results = policies::replay(&executor, set);
            table::print(set, &executor, &results);
            if let Some(plots) = &plots {
                let (name, plot) = frontier::plot(set, &executor, &results);
                if let Err(error) = std::fs::write(Path::new(plots).join(&name), plot.svg()) {
                    eprintln!("{plots}/{name}: {error}");
                    return ExitCode::FAILURE;
                }
            }
            eprintln!("{}: {:.1} s", set.name, started.elapsed().as_secs_f64());
        }
    }
    ExitCode::SUCCESS
}
