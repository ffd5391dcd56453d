//! How a program begins and ends that shows or measures something in a sandbox of its own.

use std::env;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use sandbox::{Options, Sandbox};

/// Runs until the end, or until somebody interrupts it; its sandbox goes down with the process.
pub async fn exit_code(run: impl Future<Output = Result<()>>) -> ExitCode {
    tokio::select! {
        result = run => match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("Error: {error:#}");
                ExitCode::FAILURE
            }
        },
        _ = tokio::signal::ctrl_c() => ExitCode::from(130),
    }
}

/// How many VPA objects the environment asks for.
pub fn vpas(default: usize) -> Result<usize> {
    env::var("VPAS").map_or(Ok(default), |text| {
        text.parse().with_context(|| format!("VPAS={text}"))
    })
}

/// Brings up a sandbox, measures in it and takes it down. Where the measurement fails, the sandbox
/// ends with this process, and its logs stay until the next run.
pub async fn in_sandbox(
    options: Options,
    measure: impl AsyncFnOnce(&Sandbox) -> Result<()>,
) -> Result<()> {
    let sandbox = Sandbox::up(options, |step| println!("  {step}")).await?;
    let measured = measure(&sandbox).await;
    if measured.is_err() {
        eprintln!(
            "Logs are in {} until the next run",
            sandbox.logs_dir().display()
        );
        return measured;
    }
    sandbox.down().await
}
