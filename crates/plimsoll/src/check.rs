//! Diagnosis of a cluster and of an installation.
//!
//! `reader` reads the facts with the rights of the user, `judge` turns them into findings.

mod facts;
mod finding;
mod judge;
mod output;
pub(crate) mod reader;
mod units;

use std::time::Instant;

use clap::{Args, ValueEnum};
use runtime::GoDuration;

use crate::cluster::{Cluster, ClusterArgs, ContextArgs, block_on};
use crate::failure::{Outcome, is_unreachable};
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
    /// Repeat the checks for at most this time, until none is an error.
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
    let begin = Instant::now();
    loop {
        let facts = reader::read(&cluster, namespace, rights).await;
        let is_over = begin.elapsed() >= args.wait.0;
        match facts {
            Ok(facts) => {
                let findings = judge::judge(&facts, extent);
                if is_over || !has_error(&findings) {
                    return Ok(findings);
                }
            }
            Err(error) if is_over || !is_unreachable(&error) => {
                return Err(error);
            }
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
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
