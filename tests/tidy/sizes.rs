//! Sizes: no file, function or crate is too long to read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::repository::{read, sources};

/// Lines of a source file; half of them should be under 150.
const MAX_FILE: usize = 500;
/// Lines of a function.
const MAX_FUNCTION: usize = 100;
/// Lines of a crate, in percent of those of all crates.
const MAX_CRATE_PERCENT: f64 = 12.0;
/// Lines of the recommender, which wires controllers whose decisions are in other crates.
const MAX_RECOMMENDER: usize = 6000;

#[test]
fn source_files_stay_small() {
    let lines = |path: &PathBuf| read(path).lines().count();
    let long = sources().into_iter().map(|path| (lines(&path), path));
    let long: Vec<_> = long.filter(|(lines, _)| *lines > MAX_FILE).collect();
    assert!(long.is_empty(), "more than {MAX_FILE} lines: {long:#?}");
}

#[test]
fn functions_stay_short() {
    let mut long = Vec::new();
    for path in sources() {
        for (name, lines) in functions(&read(&path)) {
            if lines > MAX_FUNCTION {
                long.push(format!("{}: {name} has {lines} lines", path.display()));
            }
        }
    }
    assert!(
        long.is_empty(),
        "more than {MAX_FUNCTION} lines:\n{}",
        long.join("\n")
    );
}

/// Names of functions with bodies, and their lines. In formatted code a function ends with the
/// first brace at its own indentation.
fn functions(text: &str) -> Vec<(String, usize)> {
    let (mut found, mut open) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let indentation = line.len() - code.len();
        if let Some(name) = function_name(code) {
            open = Some((indentation, number, name.to_owned()));
        } else if code == "}"
            && let Some((_, begin, name)) = open.take_if(|(at, ..)| *at == indentation)
        {
            found.push((name, number - begin + 1));
        }
    }
    found
}

fn function_name(code: &str) -> Option<&str> {
    let words = [
        "pub ",
        "pub(crate) ",
        "pub(super) ",
        "const ",
        "async ",
        "unsafe ",
    ];
    let mut rest = code;
    while let Some(next) = words.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = next;
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(['(', '<']).next()
}

#[test]
fn no_crate_holds_too_much() {
    let mut crates: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for path in sources() {
        // A crate, or one of the test targets.
        let name = path.iter().take(2).collect();
        *crates.entry(name).or_default() += read(&path).lines().count();
    }
    let all: usize = crates.values().sum();
    for (name, lines) in &crates {
        let percent = 100.0 * *lines as f64 / all as f64;
        assert!(
            percent <= MAX_CRATE_PERCENT,
            "{} has {lines} lines, {percent:.1} % of all",
            name.display()
        );
    }
    let recommender = crates[Path::new("crates/recommender")];
    assert!(
        recommender <= MAX_RECOMMENDER,
        "the recommender has {recommender} lines"
    );
}

#[test]
fn lines_of_functions_are_counted() {
    let text = "impl A {\n    pub(super) async fn long<T>() {\n        {\n        }\n    }\n}\nfn f() {\n}\n";
    let expected = [("long", 4), ("f", 2)].map(|(name, lines)| (name.to_owned(), lines));
    assert_eq!(functions(text), expected);
}
