//! Tables of sizing decisions on recorded series: every peer and our own policy, their families of
//! operating points, and paired differences at equal risk.
//!
//! `cargo run --release -p replay --example decisions -- TRACES`
//!
//! The folders `vertical` and `adversarial` in `TRACES` hold CSV files with `unix_seconds` first and
//! one column per series. Files that are missing are left out.

mod policies;
mod table;
mod traces;

use std::path::Path;
use std::process::ExitCode;

use replay::Executor;

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: decisions TRACES");
        return ExitCode::FAILURE;
    };
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
            eprintln!("{}: {:.1} s", set.name, started.elapsed().as_secs_f64());
        }
    }
    ExitCode::SUCCESS
}
