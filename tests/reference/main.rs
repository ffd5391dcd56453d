//! The reference of the book, made of the programs, the definitions and the sources. Lists of its names
//! lie here, so that none changes unseen; `make docs` writes the pages.
//!
//! The programs must be built before: `cargo build --workspace --bins`.
//! `UPDATE_GOLDEN=1 cargo test -p e2e --test reference` writes the lists anew.

mod chart;
mod command_lines;
mod definitions;
mod flags;
mod metrics;
mod names;
mod objects;
mod served_metrics;
mod sources;
mod upstream_flags;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) use e2e::SERVICES;
use e2e::repository_files as repository;

/// Compares a list of names with its lines, or writes it.
fn check_list(name: &str, lines: &[String]) {
    let path = repository::root().join("tests/reference").join(name);
    let text = lines.join("\n") + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).expect("the folder exists");
    }
    let listed = fs::read_to_string(&path).unwrap_or_default();
    let (listed, found): (BTreeSet<_>, BTreeSet<_>) =
        (listed.lines().collect(), text.lines().collect());
    let changed: Vec<_> = listed.symmetric_difference(&found).collect();
    assert!(
        changed.is_empty(),
        "{} is old: UPDATE_GOLDEN=1 cargo test -p e2e --test reference: {changed:#?}",
        path.display()
    );
}

/// Checks the links of a page to other pages of the book, and writes it into the folder that `make docs`
/// names.
fn add_page(name: &str, text: &str) {
    for link in text.split("](../").skip(1) {
        title(link.split(')').next().unwrap_or_default());
    }
    if let Some(folder) = std::env::var_os("PLIMSOLL_REFERENCE") {
        fs::write(Path::new(&folder).join(name), text).expect("the folder exists");
    }
}

/// The heading of a page of the book or of a section of it, such as `sizing.md#limits`.
fn title(target: &str) -> String {
    let (path, section) = target.split_once('#').unwrap_or((target, ""));
    let text = page(&format!("docs/{path}"));
    let mut headings = text.lines().filter_map(|line| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.trim().to_owned())
    });
    let anchor = |heading: &String| heading.to_lowercase().replace(' ', "-");
    headings
        .find(|heading| section.is_empty() || anchor(heading) == section)
        .unwrap_or_else(|| panic!("docs/{path} has no section {section}"))
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

pub(crate) fn page(path: &str) -> String {
    repository::read(Path::new(path))
}
