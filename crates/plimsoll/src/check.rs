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
    match timeout(args.wait.0, repeated).await {
        Ok(answer) => answer,
        Err(_) => last.unwrap_or_else(|| {
            let message = anyhow!("the API server did not answer in {}", args.wait);
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
