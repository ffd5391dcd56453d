//! Source files: none is an orphan, unfinished or a drawer for odds and ends, and those of the pure
//! crates ask neither the clock nor the environment.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::dependencies::PURE;
use crate::metadata::Metadata;
use crate::repository::{files, read, root, sources};

/// Words that a pure crate's sources may not contain: time and settings are arguments there.
const IMPURE_WORDS: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "std::env",
    "std::net",
];

const BANNED_MODULES: &[&str] = &[
    "common", "util", "utils", "helper", "helpers", "misc", "shared", "stuff",
];

#[test]
fn pure_crates_ask_neither_the_clock_nor_the_environment() {
    for path in sources() {
        let pure = PURE
            .iter()
            .any(|name| path.starts_with(format!("crates/{name}/src")));
        if pure {
            let text = read(&path);
            for word in IMPURE_WORDS {
                assert!(
                    !text.contains(word),
                    "{} uses {word}: make it an argument",
                    path.display()
                );
            }
        }
    }
}

/// Follows `mod name;` from every target's root, as the compiler does.
fn reachable_sources(metadata: &Metadata) -> BTreeSet<PathBuf> {
    let mut open: Vec<PathBuf> = metadata
        .members()
        .flat_map(|package| &package.targets)
        .map(|target| target.src_path.clone())
        .collect();
    let mut reached = BTreeSet::new();
    let roots: BTreeSet<PathBuf> = open.iter().cloned().collect();
    while let Some(path) = open.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parent = path.parent().expect("a file lies in a folder");
        let stem = path.file_stem().expect("a file has a name");
        let children = if roots.contains(&path) || stem == "mod" {
            parent.to_path_buf()
        } else {
            parent.join(stem)
        };
        for name in text.lines().filter_map(declared_module) {
            let candidates = [
                children.join(format!("{name}.rs")),
                children.join(&name).join("mod.rs"),
            ];
            let file = candidates.iter().find(|candidate| candidate.exists());
            open.push(
                file.unwrap_or_else(|| panic!("{}: mod {name} has no file", path.display()))
                    .clone(),
            );
        }
    }
    reached
}

/// The name in `mod name;`, with or without a visibility.
fn declared_module(line: &str) -> Option<String> {
    let rest = line.trim_start();
    let rest = rest
        .strip_prefix("pub(crate) ")
        .or_else(|| rest.strip_prefix("pub "))
        .unwrap_or(rest);
    let name = rest.strip_prefix("mod ")?.trim_end().strip_suffix(';')?;
    Some(name.to_owned())
}

#[test]
fn no_source_file_is_an_orphan() {
    let reached = reachable_sources(&Metadata::load());
    for path in sources() {
        assert!(
            reached.contains(&root().join(&path)),
            "{} belongs to no target",
            path.display()
        );
    }
}

#[test]
fn no_module_is_a_drawer_for_odds_and_ends() {
    for path in sources() {
        for part in path.with_extension("").components() {
            let part = part.as_os_str().to_string_lossy();
            assert!(
                !BANNED_MODULES.contains(&part.as_ref()),
                "{}: name it after what it holds",
                path.display()
            );
        }
    }
}

#[test]
fn nothing_is_left_unfinished() {
    // Put together here, so that this file does not contain them.
    let words = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("dbg", "!("),
        concat!("#[", "ignore"),
    ];
    for path in sources() {
        let text = read(&path);
        for word in words {
            assert!(!text.contains(word), "{} contains {word}", path.display());
        }
    }
}

#[test]
fn the_top_level_is_the_agreed_one() {
    let known = [
        ".ci",
        ".github",
        ".gitignore",
        "CONTRIBUTING.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE",
        "Makefile",
        "NOTICE",
        "README.md",
        "certs",
        "clippy.toml",
        "crates",
        "deny.toml",
        "deploy",
        "docs",
        "proto",
        "rust-toolchain.toml",
        "rustfmt.toml",
        "tests",
    ];
    for path in files() {
        let top = path
            .components()
            .next()
            .expect("a path has a first part")
            .as_os_str()
            .to_string_lossy()
            .into_owned();
        assert!(
            known.contains(&top.as_str()),
            "{top} is new at the top level"
        );
    }
}
