//! `plimsoll`, the command-line tool: recommended sizes and their savings from recorded usage,
//! replays of sizing policies, and a report. Needs nothing installed in a cluster.
//!
//! | module | contents |
//! |---|---|
//! | `args` | commands |
//! | `failure` | errors and exit codes |
//! | `usage` | recorded usage: CSV files and the bundled sample |
//! | `recommend` | recommended sizes of a container |
//! | `scan` | present and recommended sizes, savings |
//! | `severity` | severity of a finding |
//! | `prices` | prices of CPU and memory |
//! | `backtest` | replay of sizing policies over recorded usage |
//! | `report` | HTML page |
//! | `output` | tables as text, Markdown, CSV, JSON, YAML and HTML |
//! | `shell` | completions of shells and the manual page |
//!
//! Decisions are in the crates `sizing` and `replay`; this crate reads and prints.

mod args;
mod backtest;
mod failure;
mod output;
mod prices;
mod recommend;
mod report;
mod scan;
mod severity;
mod shell;
mod usage;

use std::io::Write as _;
use std::process::ExitCode;

pub use args::Cli;

use args::Command;
use failure::{Failure, Outcome};

/// Runs the command. Data goes to the standard output, everything else to the standard error.
pub fn run(cli: Cli) -> ExitCode {
    match execute(cli) {
        Ok(outcome) => outcome.exit_code(),
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "error: {failure}");
            failure.exit_code()
        }
    }
}

fn execute(cli: Cli) -> Result<Outcome, Failure> {
    match cli.command {
        Command::Scan(args) => scan::run(&args),
        Command::Backtest(args) => backtest::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Completion { shell } => shell::completion(shell),
        Command::Man => shell::manual(),
    }
}
