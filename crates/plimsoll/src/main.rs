//! The process of the command-line tool.

use clap::Parser as _;
use plimsoll::Cli;

fn main() -> std::process::ExitCode {
    plimsoll::run(Cli::parse())
}
