//! The generated pages of `docs/reference`, compared with the programs, the definitions and the sources.
//!
//! The programs must be built before: `cargo build --workspace --bins`.
//! `UPDATE_GOLDEN=1 cargo test -p e2e --test reference` writes the pages anew.

mod command_lines;
mod definitions;
mod flags;
mod metrics;
mod names;
mod objects;
mod served_metrics;
mod sources;
mod upstream_flags;

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::repository_files as repository;

/// The programs of the suite, without the command-line tool.
pub(crate) const SERVICES: [&str; 5] = ["recommender", "updater", "webhook", "adapter", "extender"];

/// Compares a page with its text, or writes it.
fn check_page(path: &str, text: &str) {
    let path = repository::root().join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).expect("the folder exists");
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == text,
        "{} is old: UPDATE_GOLDEN=1 cargo test -p e2e --test reference",
        path.display()
    );
}

/// The help text of a command, such as `plimsoll migrate adopt`.
pub(crate) fn help(command: &[String]) -> String {
    let program = e2e::program(&command[0]).expect("a folder of programs");
    let output = Command::new(&program)
        .args(&command[1..])
        .arg("--help")
        .env_clear()
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Text for a cell of a Markdown table: one line, without the signs of tables, links and HTML.
pub(crate) fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ").replace('|', "\\|");
    let mut is_code = false;
    let mut cell = String::new();
    for letter in text.chars() {
        is_code ^= letter == '`';
        match letter {
            '<' if !is_code => cell.push_str("&lt;"),
            '[' | ']' | '*' | '_' if !is_code => cell.extend(['\\', letter]),
            _ => cell.push(letter),
        }
    }
    cell
}

/// The text of a page of the repository.
pub(crate) fn page(path: &str) -> String {
    repository::read(Path::new(path))
}
