//! Diagnosis of a cluster and of an installation.
//!
//! `reader` reads the facts with the rights of the user, `judge` turns them into findings.

mod facts;
mod finding;
mod judge;
mod objects;
mod output;
pub(crate) mod reader;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use runtime::GoDuration;
use tokio::time::{sleep, timeout};

use crate::cluster::{Cluster, ClusterArgs, ContextArgs, block_on};
use crate::failure::{Failure, Outcome, is_unreachable};
use crate::installation::InstallationArgs;
use crate::output::print_text;

pub(crate) use facts::StopFact;
pub(crate) use finding::{Finding, Read, Status, Unread, noted, unread};
use judge::Extent;

/// Pause between two attempts with `--wait`.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(2);

#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) installation: InstallationArgs,
    #[command(flatten)]
    pub(crate) contexts: ContextArgs,
    /// Check only what matters before an installation.
    #[arg(long)]
    pub(crate) pre: bool,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Form::Table, value_name = "FORMAT")]
    pub(crate) output: Form,
    /// Repeat the checks for at most this time, until all are answered and none is an error.
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    pub(crate) wait: GoDuration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// All checks by category.
    Table,
    /// One JSON object; identifiers and fields keep their names and meaning between versions.
    Json,
    /// Warnings and errors, one line each.
    Short,
    /// `JUnit` XML, with a test case for each check.
    Junit,
    /// Warnings and errors as SARIF 2.1.0 for code scanning.
    Sarif,
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<Outcome> {
    let cluster = &args.installation.cluster;
    let read = |cluster: &ClusterArgs| block_on(check(args, cluster));
    let answers = args.contexts.read(cluster, read)?.some()?;
    print_text(output::render(&answers, args.output))?;
    let outcome = answers.outcome();
    let mut found = answers.found.iter();
    Ok(if found.any(|(_, findings)| has_error(findings)) {
        Outcome::Failed
    } else {
        outcome
    })
}

async fn check(args: &CheckArgs, cluster: &ClusterArgs) -> anyhow::Result<Vec<Finding>> {
    let (extent, rights) = if args.pre {
        (Extent::Before, judge::INSTALL)
    } else {
        (Extent::Installed, judge::USE)
    };
    let cluster = cluster.connect().await?;
    let namespace = &args.installation.system_namespace;
    let check = async || {
        let facts = reader::read(&cluster, namespace, rights).await?;
        Ok(judge::judge(&facts, extent))
    };
    if args.wait.0.is_zero() {
        return check().await;
    }
    repeated(args.wait, check).await
}

/// Repeats checks until all are answered and none is an error. The last ones count after this time.
async fn repeated(
    wait: GoDuration,
    check: impl AsyncFn() -> anyhow::Result<Vec<Finding>>,
) -> anyhow::Result<Vec<Finding>> {
    let mut last = None;
    let repeated = async {
        loop {
            match check().await {
                Ok(findings) if !has_error(&findings) => return Ok(findings),
                Err(error) if !is_unreachable(&error) => return Err(error),
                answer => last = Some(answer),
            }
            sleep(PAUSE).await;
        }
    };
    match timeout(wait.0, repeated).await {
        Ok(answer) => answer,
        Err(_) => last.unwrap_or_else(|| {
            let message = anyhow!("the first checks were not complete after {wait}");
            Err(Failure::Unreachable(message).into())
        }),
    }
}

pub(crate) async fn all(cluster: &Cluster, namespace: &str) -> anyhow::Result<Vec<Finding>> {
    let facts = reader::read(cluster, namespace, judge::USE).await?;
    Ok(judge::judge(&facts, Extent::Installed))
}

/// The same as text.
pub(crate) async fn findings(cluster: &Cluster, namespace: &str) -> anyhow::Result<String> {
    let findings = all(cluster, namespace).await?;
    Ok(output::table(&findings))
}

fn has_error(findings: &[Finding]) -> bool {
    let is_error = |finding: &Finding| finding.status == Status::Error;
    findings.iter().any(is_error)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use super::*;

    fn finding(status: Status) -> Finding {
        Finding {
            status,
            category: "",
            id: String::new(),
            title: String::new(),
            message: String::new(),
            hint: String::new(),
        }
    }

    /// Waits for 59 s while each check but the `good`th gets this answer. Returns the result, and the
    /// number of checks.
    async fn wait(
        good: u32,
        answer: impl Fn() -> anyhow::Result<Vec<Finding>>,
    ) -> (Result<Status, String>, u32) {
        let count = Cell::new(0);
        let check = async || {
            count.set(count.get() + 1);
            if count.get() == good {
                return Ok(vec![finding(Status::Ok)]);
            }
            answer()
        };
        let found = repeated(GoDuration(std::time::Duration::from_secs(59)), check).await;
        let found = found.map(|found| found[0].status);
        (found.map_err(|error| error.to_string()), count.get())
    }

    #[tokio::test(start_paused = true)]
    async fn checks_are_repeated_until_none_is_an_error() {
        let error = || Ok(vec![finding(Status::Error)]);
        let unreachable = || Err(Failure::Unreachable(anyhow!("down")).into());
        assert_eq!(wait(1, error).await, (Ok(Status::Ok), 1));
        assert_eq!(wait(3, error).await, (Ok(Status::Ok), 3));
        assert_eq!(wait(3, unreachable).await, (Ok(Status::Ok), 3));
        assert_eq!(wait(0, error).await, (Ok(Status::Error), 30));
        assert_eq!(wait(0, unreachable).await, (Err("down".to_owned()), 30));
        let refused = || Err(anyhow!("no such context"));
        let expected = Err("no such context".to_owned());
        assert_eq!(wait(3, refused).await, (expected, 1));
        let never = async || pending().await;
        let found = repeated(GoDuration(std::time::Duration::from_mins(1)), never).await;
        let error = found.expect_err("no answer").to_string();
        assert_eq!(error, "the first checks were not complete after 1m0s");
    }
}
