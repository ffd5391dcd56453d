//! The command-line tool `plimsoll` as a user runs it.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result};
use tokio::process::Command;

use crate::program;

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
    anyhow::ensure!(
        output.status.success(),
        "plimsoll {} exits with {}: {}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
