//! Moves from another autoscaler: its objects in the cluster, and the steps in order, each with the
//! way back. Only `adopt` and `release` write to the cluster.
//!
//! `reader` reads the facts with the rights of the user; a module per product turns them into a
//! [`Migration`].

mod crane;
mod external_metrics;
mod facts;
mod fields;
mod goldilocks;
mod keda;
mod output;
mod plan;
mod prometheus_adapter;
mod reader;
#[cfg(test)]
mod tests;
mod vpa;

use anyhow::bail;
use clap::{Args, Subcommand};

use crate::cluster::block_on;
use crate::failure::{Failure, Outcome};
use crate::installation::InstallationArgs;
use crate::output::{Format, OutputArgs, print, print_text};
use external_metrics::{AdoptArgs, TargetArgs};
use facts::{Facts, Source};
use plan::{Migration, Verdict};

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// From upstream's Vertical Pod Autoscaler.
    Vpa(MigrateArgs),
    /// From Goldilocks.
    Goldilocks(MigrateArgs),
    /// From KEDA, or to an adapter in front of it.
    Keda(MigrateArgs),
    /// From prometheus-adapter.
    PrometheusAdapter(MigrateArgs),
    /// From Crane.
    Crane(MigrateArgs),
    /// Point the `APIService` of external.metrics.k8s.io at the adapter. Needs a route to its
    /// current provider. Keeps the previous spec in an annotation.
    Adopt(AdoptArgs),
    /// Restore the `APIService` as it was before `adopt`.
    Release(TargetArgs),
}

/// Flags of a migration.
#[derive(Clone, Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    pub(crate) installation: InstallationArgs,
    /// Print the objects concerned, and what stands against a migration (the default).
    #[arg(long, conflicts_with = "plan")]
    pub(crate) check: bool,
    /// Print the steps in order, with their commands and the way back.
    #[arg(long)]
    pub(crate) plan: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) fn run(command: &MigrateCommand) -> anyhow::Result<Outcome> {
    match command {
        MigrateCommand::Vpa(args) => migrate(&vpa::SOURCE, vpa::migration, args),
        MigrateCommand::Goldilocks(args) => {
            migrate(&goldilocks::SOURCE, goldilocks::migration, args)
        }
        MigrateCommand::Keda(args) => migrate(&keda::SOURCE, keda::migration, args),
        MigrateCommand::PrometheusAdapter(args) => migrate(
            &prometheus_adapter::SOURCE,
            prometheus_adapter::migration,
            args,
        ),
        MigrateCommand::Crane(args) => migrate(&crane::SOURCE, crane::migration, args),
        MigrateCommand::Adopt(args) => done(external_metrics::adopt(args)),
        MigrateCommand::Release(args) => done(external_metrics::run_release(args)),
    }
}

fn done(moved: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<Outcome> {
    block_on(moved).map(|()| Outcome::Done)
}

fn migrate(
    source: &Source,
    judge: fn(&Facts) -> Migration,
    args: &MigrateArgs,
) -> anyhow::Result<Outcome> {
    let format = args.output.output;
    if args.plan && !matches!(format, Format::Table | Format::Json | Format::Yaml) {
        let message = "--plan has the forms table, json and yaml: choose one with --output";
        bail!(Failure::Usage(message.to_owned()));
    }
    let facts = block_on(async {
        let cluster = args.installation.cluster.connect().await?;
        reader::read(&cluster, source, &args.installation.system_namespace).await
    })?;
    let migration = judge(&facts);
    if args.plan && format == Format::Table {
        print_text(output::script(source.product, &migration))?;
    } else if args.plan {
        print(&output::plan(source.product, &migration), &args.output)?;
    } else {
        let document = output::check(source.product, &migration, &facts.unread);
        print(&document, &args.output)?;
    }
    let is_blocked = |item: &plan::Item| item.verdict == Verdict::Blocked;
    Ok(if migration.items.iter().any(is_blocked) {
        Outcome::Failed
    } else {
        Outcome::of(facts.unread.is_empty())
    })
}
