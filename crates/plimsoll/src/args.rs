//! Commands, with the completions and the manual page. Their flags are in the module of each command.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::adapter_files::{RoutesCommand, RulesCommand};
use crate::backtest::BacktestArgs;
use crate::changes::{DiffArgs, ManifestsArgs};
use crate::check::CheckArgs;
use crate::dashboard::DashboardArgs;
use crate::explain::ExplainArgs;
use crate::failure::Outcome;
use crate::migrate::MigrateCommand;
use crate::output::print_text;
use crate::report::ReportArgs;
use crate::revert::{RevertArgs, ScopeArgs};
use crate::scan::ScanArgs;
use crate::simulate::SimulateArgs;
use crate::status::StatusArgs;
use crate::stop::{StopArgs, SwitchArgs};
use crate::support_bundle::BundleArgs;

/// Sizes of Kubernetes workloads from recorded usage: recommendations, savings, proof by replay.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, bin_name = name_of_program())]
#[command(after_help = "Examples:
  plimsoll report --sample                    # a page from the bundled sample
  plimsoll scan usage.csv --fail-on critical  # exit code 3 if a request is far too small
  plimsoll backtest usage.csv -o json")]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show present and recommended requests of each container, with severity and savings.
    Scan(ScanArgs),
    /// Show the requests and limits that the recommendations would change.
    Diff(DiffArgs),
    /// Print the changes as manifests.
    Manifests(ManifestsArgs),
    /// Replay the recorded usage through several sizing policies and compare waste and failures.
    Backtest(BacktestArgs),
    /// Replay the recorded CPU usage through the HPA and EHPAs and compare replicas and shortages.
    Simulate(SimulateArgs),
    /// Write one self-contained HTML page with plots.
    Report(ReportArgs),
    /// Check the cluster and the installation, with a hint for each fault.
    Check(CheckArgs),
    /// Show programs, leaders, the stop switch and the number of objects.
    Status(StatusArgs),
    /// Give pods the resources of their workload's template again, with the mode Off.
    Revert(RevertArgs),
    /// Give the objects their mode again after `revert`.
    Resume(ScopeArgs),
    /// Stop all evictions and resizes.
    Stop(StopArgs),
    /// Continue evictions and resizes.
    Go(SwitchArgs),
    /// Rule files of prometheus-adapter.
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Routes files.
    #[command(subcommand)]
    Routes(RoutesCommand),
    /// Write a folder with objects, logs and metrics for a fault report, without Secrets.
    SupportBundle(BundleArgs),
    /// Explain a recommendation: bounds, caps, history, and pods without the recommended requests.
    Explain(ExplainArgs),
    /// Serve pages about sizes, scaling and the installation on this computer.
    Dashboard(DashboardArgs),
    /// Move from another autoscaler: what it has, and the steps in order with the way back.
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Print the completions for a shell.
    Completion {
        /// Shell.
        shell: Shell,
    },
    /// Print the manual page (roff), or write those of all commands into a folder.
    Man {
        /// Folder for the pages, such as `~/.local/share/man/man1`.
        folder: Option<PathBuf>,
    },
}

pub(crate) fn completion(shell: Shell) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "plimsoll", &mut text);
    print_text(text)
}

pub(crate) fn manual(folder: Option<&Path>) -> anyhow::Result<Outcome> {
    let command = Cli::command().bin_name("plimsoll");
    if let Some(folder) = folder {
        let error = || format!("cannot write {}", folder.display());
        std::fs::create_dir_all(folder).with_context(error)?;
        clap_mangen::generate_to(command, folder).with_context(error)?;
        return Ok(Outcome::Done);
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    print_text(text)
}

/// The commands by what they are for. All of them are named once.
const GROUPS: [(&str, &str); 5] = [
    (
        "See what you could save",
        "report scan diff manifests backtest simulate",
    ),
    ("Look at a cluster", "check status explain dashboard"),
    ("Change it", "revert resume stop go"),
    ("Move from other autoscalers", "migrate rules routes"),
    ("Others", "support-bundle completion man help"),
];

/// The commands with their flags, and the help of `plimsoll` in groups.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        let _ = writeln!(text, "\n{title}:");
        for name in names.split(' ') {
            let about = command
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<14}  {about}");
        }
    }
    text.push_str("\nOptions:\n{options}{after-help}");
    Cli::command().help_template(text)
}

/// `kubectl plimsoll` if the program runs as a plugin of kubectl.
fn name_of_program() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    let program = program.as_deref();
    let name = program.and_then(|path| path.file_stem()?.to_str());
    if name.is_some_and(|name| name.starts_with("kubectl-")) {
        "kubectl plimsoll".to_owned()
    } else {
        "plimsoll".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let mut command = Cli::command();
        command.build();
        let mut all: Vec<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.split(' '))
            .collect();
        all.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, all);
    }
}
