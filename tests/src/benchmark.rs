//! Start and end of a program that demonstrates or measures something in its own sandbox.

use std::env;
use std::num::ParseIntError;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context as _, Result, ensure};
use sandbox::{Options, Sandbox};

/// Runs until the end or an interrupt; the sandbox goes down with the process.
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

/// Whether tests measure latencies and check their bounds, which needs a machine of its own:
/// `make bench-latency` sets `PLIMSOLL_LATENCY`. Other runs check the results only.
pub fn checks_latency() -> bool {
    env::var_os("PLIMSOLL_LATENCY").is_some_and(|value| !value.is_empty())
}

/// Number of VPA objects, from the environment.
pub fn vpas(default: usize) -> Result<usize> {
    Ok(number("VPAS")?.unwrap_or(default))
}

/// A number from the environment; `None` if it is not set, or empty.
pub fn number<T: FromStr<Err = ParseIntError>>(name: &str) -> Result<Option<T>> {
    let value = env::var(name).ok().filter(|text| !text.is_empty());
    let parsed = value.map(|text| text.parse().with_context(|| format!("{name}={text}")));
    parsed.transpose()
}

/// Nodes of a sandbox for this number of pods: each takes 1,000.
pub fn nodes_for(pods: usize) -> Result<u16> {
    let nodes = pods.div_ceil(900).max(1);
    nodes.try_into().context("too many pods")
}

/// The median of at least one number.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Prints a row of a table: a name, then a column per number or title.
pub fn print_row(name: &str, columns: impl IntoIterator<Item = String>) {
    let columns = columns.into_iter().map(|column| format!("{column:>16}"));
    println!("  {name:<38}{}", columns.collect::<String>());
}

/// Brings up a sandbox, measures in it and takes it down. An error if one of its name is up: two runs
/// would disturb each other. Where the measurement fails, the sandbox ends with this process, and its
/// logs stay until the next run.
pub async fn in_sandbox(
    options: Options,
    measure: impl AsyncFnOnce(&Sandbox) -> Result<()>,
) -> Result<()> {
    let name = options.name.clone();
    let sandbox = Sandbox::up(options, |step| println!("  {step}")).await?;
    ensure!(
        sandbox.is_owned(),
        "a sandbox {name:?} is up already: end the run that uses it, or `sandbox down --name {name}`"
    );
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
