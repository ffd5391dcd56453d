//! Accuracy of the forecasts on recorded series: a table of our method, the simple methods and
//! Crane's DSP predictor.
//!
//! `PLIMSOLL_TRACES=FOLDER cargo run --release -p forecast --example accuracy [-- FILTER]`
//!
//! The folder holds CSV files with `unix_seconds` first and one column per series; their names end
//! in `__STEPs.csv`. Each slot of the last 30 % of a series is forecast 1 slot, 1 hour and 24 hours
//! ahead, from the values known at that time.

mod calibration;
mod crane_dsp;
mod replay;
mod simple;
mod table;
mod trace;

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::var_os("PLIMSOLL_TRACES") else {
        eprintln!("PLIMSOLL_TRACES must name a folder of traces");
        return ExitCode::FAILURE;
    };
    let filter = std::env::args().nth(1).unwrap_or_default();
    let traces = match trace::read(folder.as_ref(), &filter) {
        Ok(traces) if !traces.is_empty() => traces,
        Ok(_) => {
            eprintln!("there are no such traces");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let results: Vec<replay::Result> = traces.iter().map(replay::replay).collect();
    table::print(&results);
    ExitCode::SUCCESS
}
