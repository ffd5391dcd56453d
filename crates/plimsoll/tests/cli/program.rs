//! Runs of the program.

use std::path::Path;
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

/// A file in a folder that is deleted with the first value.
pub(crate) fn file(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, text).expect("a written file");
    let path = path.to_str().expect("UTF-8").to_owned();
    (folder, path)
}

pub(crate) fn kubeconfig(server: &str) -> (tempfile::TempDir, String) {
    file(&format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
         users: [{{name: a, user: {{}}}}]\n"
    ))
}

/// The error for a server at port 1, on which nothing listens.
pub(crate) const UNREACHABLE: &str = "error: cannot reach the API server http://127.0.0.1:1/";
