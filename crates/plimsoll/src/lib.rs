//! `plimsoll`, the command-line tool: recommended sizes and their savings from recorded usage,
//! replays of sizing policies, and a report. Needs nothing installed in a cluster.
//!
//! | module | contents |
//! |---|---|
//! | `args` | commands in groups, completions of shells, manual pages |
//! | `changes` | recommended requests as differences and as manifests |
//! | `ci` | findings as `JUnit` and SARIF |
//! | `cluster` | connection to the cluster, several clusters at once |
//! | `json` | objects as JSON |
//! | `installation` | programs of the suite in the cluster |
//! | `check` | diagnosis of a cluster and an installation |
//! | `status`, `stop` | the installation at a glance, the stop switch |
//! | `adapter_files` | rule files and routes files |
//! | `support_bundle` | objects, logs and metrics for a fault report |
//! | `explain` | explanation of a recommendation from the objects of the API server |
//! | `dashboard` | pages about a cluster for a browser on this computer |
//! | `migrate` | moves from other autoscalers |
//! | `failure` | errors and exit codes |
//! | `usage` | recorded usage: CSV files and the bundled sample |
//! | `workload` | containers by workload, total usage |
//! | `recommend` | recommended sizes of a container |
//! | `scan` | present and recommended sizes, savings |
//! | `severity` | severity of a finding |
//! | `usage_plot` | plots of usage and requests over time |
//! | `progress` | progress of long work on a terminal |
//! | `prices` | prices of CPU and memory |
//! | `backtest` | replay of sizing policies over recorded usage |
//! | `simulate` | replay of horizontal scaling over recorded usage |
//! | `report` | HTML page |
//! | `output` | tables as text, Markdown, CSV, JSON, YAML and HTML |
//!
//! Decisions are in the crates `sizing` and `replay`; this crate reads and prints.

mod adapter_files;
mod args;
mod backtest;
mod changes;
mod check;
mod ci;
mod cluster;
mod dashboard;
mod explain;
mod failure;
mod heap;
mod installation;
mod json;
mod migrate;
mod output;
mod prices;
mod progress;
mod recommend;
mod report;
mod revert;
mod scan;
mod severity;
mod simulate;
mod status;
mod stop;
mod subject;
mod support_bundle;
mod usage;
mod usage_plot;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

pub use args::{Cli, command};

use args::Command;
use failure::{Outcome, exit_code, is_closed_pipe};

/// Runs the command. Data goes to the standard output, everything else to the standard error.
pub fn run(cli: Cli) -> ExitCode {
    match execute(cli) {
        Ok(outcome) => outcome.exit_code(),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(exit_code(&error))
        }
    }
}

fn execute(cli: Cli) -> anyhow::Result<Outcome> {
    match cli.command {
        Command::Scan(args) => scan::run(&args),
        Command::Diff(args) => changes::diff(&args),
        Command::Manifests(args) => changes::print_manifests(&args),
        Command::Backtest(args) => backtest::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Revert(args) => revert::revert(&args),
        Command::Resume(args) => revert::resume(&args),
        Command::Stop(args) => stop::stop(&args),
        Command::Go(args) => stop::go(&args),
        Command::Rules(command) => adapter_files::rules(&command),
        Command::Routes(command) => adapter_files::routes(&command),
        Command::SupportBundle(args) => support_bundle::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Dashboard(args) => dashboard::run(&args),
        Command::Migrate(command) => migrate::run(&command),
        Command::Completion { shell } => args::completion(shell),
        Command::Man { folder } => args::manual(folder.as_deref()),
    }
}
