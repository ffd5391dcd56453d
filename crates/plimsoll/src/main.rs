//! The process of the command-line tool.

use clap::FromArgMatches as _;
use plimsoll::{Cli, command};

fn main() -> std::process::ExitCode {
    let matches = command().get_matches();
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => plimsoll::run(cli),
        Err(error) => error.exit(),
    }
}
