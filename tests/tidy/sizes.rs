//! Sizes: no file is too long to read, and no crate holds most of the code.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::repository::{read, sources};

/// Lines of a source file; half of them should be under 150.
const MAX_FILE: usize = 500;
/// Lines of a crate, in percent of those of all crates.
const MAX_CRATE_PERCENT: f64 = 12.0;

#[test]
fn source_files_stay_small() {
    let lines = |path: &PathBuf| read(path).lines().count();
    let long = sources().into_iter().map(|path| (lines(&path), path));
    let long: Vec<_> = long.filter(|(lines, _)| *lines > MAX_FILE).collect();
    assert!(long.is_empty(), "more than {MAX_FILE} lines: {long:#?}");
}

#[test]
fn no_crate_holds_too_much() {
    let mut crates: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for path in sources() {
        let folders: usize = if path.starts_with("crates") { 2 } else { 1 };
        let name = path.iter().take(folders).collect();
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
}
