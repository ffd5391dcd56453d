//! Completions of shells and the manual page, from the definition of the flags.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Failure, Outcome};
use crate::output::print_text;

pub(crate) fn completion(shell: Shell) -> Result<Outcome, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "plimsoll", &mut text);
    print_text(text)
}

/// Prints the manual page.
pub(crate) fn manual() -> Result<Outcome, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text)?;
    print_text(text)
}
