//! Commands as a user runs them, and the command-line tool `plimsoll` among them.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use crate::program;

/// The programs of the suite, without the command-line tool.
pub const SERVICES: [&str; 5] = ["recommender", "updater", "webhook", "adapter", "extender"];

/// Output of `plimsoll` with these arguments and `KUBECONFIG`.
pub async fn plimsoll(kubeconfig: &Path, arguments: &[&str]) -> Result<Output> {
    Command::new(program("plimsoll")?)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("run plimsoll {}", arguments.join(" ")))
}

/// Standard output of a command that succeeds.
pub async fn plimsoll_prints(kubeconfig: &Path, arguments: &[&str]) -> Result<String> {
    let output = plimsoll(kubeconfig, arguments).await?;
    printed(&format!("plimsoll {}", arguments.join(" ")), output)
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
        "{words}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout);
    text.with_context(|| format!("{words}: it printed something that is no text"))
}
