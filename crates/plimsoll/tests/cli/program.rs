//! Runs of the program.

use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs the program without a terminal and without environment of its own.
pub(crate) fn run(arguments: &[&str]) -> Run {
    run_with(&[], arguments)
}

/// The same with variables of the environment.
pub(crate) fn run_with(variables: &[(&str, &str)], arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(arguments)
        .env_clear()
        .env("HOME", "/nonexistent")
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Run {
        code: output.status.code().expect("an exit code"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A file with usage in a temporary folder.
pub(crate) fn usage_file(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("usage.csv");
    std::fs::write(&path, text).expect("a written file");
    path
}
