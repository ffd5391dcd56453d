//! Tables of pods packed on nodes: the fewest nodes that each scheduler needs, by sizing policy, and
//! the effect of rebalancing.
//!
//! `cargo run --release -p replay --example placement_decisions -- TRACES [HALF] [PLOTS]`
//!
//! The folder `vertical` in `TRACES` holds the files of Bitbrains. `HALF` is `second`, the default,
//! or `first`, on which the settings of our own way were chosen. Plots are written to the folder
//! `PLOTS`, if that is given.

mod search;
mod table;
mod traces;
mod ways;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), half) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: placement_decisions TRACES [first|second] [PLOTS]");
        return ExitCode::FAILURE;
    };
    let half = match half.as_deref() {
        None | Some("" | "second") => 1,
        Some("first") => 0,
        Some(other) => {
            eprintln!("{other} is neither first nor second");
            return ExitCode::FAILURE;
        }
    };
    let plots = arguments.next().filter(|plots| !plots.is_empty());
    let machines = match traces::read(Path::new(&folder)) {
        Ok(machines) => machines,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let inputs = search::Inputs::new(&machines, half);
    table::print(&inputs);
    for (name, plot) in plots.iter().flat_map(|_| table::plots(&inputs)) {
        let path = Path::new(plots.as_deref().unwrap_or_default()).join(name);
        if let Err(error) = std::fs::write(&path, plot.svg()) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
