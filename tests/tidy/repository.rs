//! Files of the repository, and the entries of its root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
        .to_path_buf()
}

/// The files that git knows or would add, as paths from the root.
pub(crate) fn files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("our paths are UTF-8");
    text.lines()
        .map(PathBuf::from)
        .filter(|path| root().join(path).exists())
        .collect()
}

pub(crate) fn sources() -> Vec<PathBuf> {
    files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
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
