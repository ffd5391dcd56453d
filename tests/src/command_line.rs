//! Commands as a user runs them, and the command-line tool `plimsoll` among them.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::program;

/// The programs of the suite, without the command-line tool.
pub const SERVICES: [&str; 5] = ["recommender", "updater", "webhook", "adapter", "extender"];

/// Output of `plimsoll` with these arguments, separated by whitespace, and `KUBECONFIG`.
pub async fn plimsoll(kubeconfig: &Path, arguments: &str) -> Result<Output> {
    Command::new(program("plimsoll")?)
        .args(arguments.split_whitespace())
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("run plimsoll {arguments}"))
}

/// Standard output of a command that succeeds.
pub async fn plimsoll_prints(kubeconfig: &Path, arguments: &str) -> Result<String> {
    let output = plimsoll(kubeconfig, arguments).await?;
    printed(&format!("plimsoll {arguments}"), output)
}

/// The JSON that a command prints, whatever its exit code.
pub async fn plimsoll_json(kubeconfig: &Path, arguments: &str) -> Result<Value> {
    let output = plimsoll(kubeconfig, &format!("{arguments} -o json")).await?;
    serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments}: {output:?}"))
}

/// Standard output of a command that succeeds. Its errors name its program and arguments.
pub async fn prints(command: &mut Command) -> Result<String> {
    let words = command.as_std();
    let words = [words.get_program()].into_iter().chain(words.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    let words = words.join(" ");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = output.await.with_context(|| format!("run {words}"))?;
    printed(&words, output)
}

fn printed(words: &str, output: Output) -> Result<String> {
    ensure!(
        output.status.success(),
        "{words}: {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout);
    text.with_context(|| format!("{words}: it printed something that is no text"))
}
