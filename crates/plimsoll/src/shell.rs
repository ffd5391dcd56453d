//! Completions of shells and the manual page, from the definition of the flags.

use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Failure, Outcome};

pub(crate) fn completion(shell: Shell) -> Result<Outcome, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "plimsoll", &mut text);
    print(&text)
}

/// Prints the manual page.
pub(crate) fn manual() -> Result<Outcome, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text)?;
    print(&text)
}

fn print(text: &[u8]) -> Result<Outcome, Failure> {
    io::Write::write_all(&mut io::stdout(), text)?;
    Ok(Outcome::Done)
}
