//! One self-contained HTML page: an overview of money and risk, and folded details with a plot of each
//! container's usage and its requests. No scripts, and nothing is loaded from the network.

mod container;
mod merge;
mod overview;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use maud::{Markup, html};
use rayon::prelude::*;

use crate::backtest::{self, WARM_UP_DAYS, is_long_enough};
use crate::cluster::{ClusterArgs, ContextArgs};
use crate::failure::Outcome;
use crate::output::numbers::minute;
use crate::output::{LINE, page as html_page};
use crate::prices::{PriceArgs, Prices};
use crate::recommend::SizingArgs;
use crate::scan::{self, Scan, ScannedContainer};
use crate::usage::{self, ContainerUsage, SourceArgs};
use merge::MergeArgs;

#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) contexts: ContextArgs,
    #[command(flatten, next_help_heading = None)]
    pub(crate) sizing: SizingArgs,
    #[command(flatten)]
    pub(crate) prices: PriceArgs,
    #[command(flatten)]
    pub(crate) page: PageArgs,
    #[command(subcommand)]
    pub(crate) command: Option<ReportCommand>,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ReportCommand {
    /// Write one page of saved scans of several clusters.
    Merge(MergeArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct PageArgs {
    /// File of the page; `-` is the standard output.
    #[arg(
        long,
        short = 'f',
        default_value = "plimsoll-report.html",
        value_name = "FILE"
    )]
    pub(crate) file: PathBuf,
}

impl PageArgs {
    fn write(&self, page: &str) -> anyhow::Result<()> {
        if self.file.as_os_str() == "-" {
            return Ok(std::io::stdout().write_all(page.as_bytes())?);
        }
        let path = self.file.display();
        std::fs::write(&self.file, page).with_context(|| format!("cannot write {path}"))?;
        eprintln!("wrote {path}; open it in a browser");
        Ok(())
    }
}

/// Maximum number of containers with plots, those of the highest severity and the largest savings first.
const MAX_PLOTTED: usize = 100;
/// Number of those with plots in the overview.
const MAX_RISKS: usize = 5;

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<Outcome> {
    if let Some(ReportCommand::Merge(args)) = &args.command {
        return merge::run(args);
    }
    args.source.allow(&args.contexts)?;
    let prices = Prices::read(&args.prices)?;
    let caution = &args.sizing.caution;
    if args.contexts.are_set() {
        let cluster = &args.source.prometheus.cluster;
        let read = |cluster: &ClusterArgs| {
            let usage = usage::read(&args.source.within(cluster))?;
            let (scanned, left_out) = scan::scan_all(&usage, caution, &prices);
            Ok(Scan::new(scanned, &left_out, &prices))
        };
        let answers = args.contexts.read(cluster, read)?.some()?;
        let outcome = answers.outcome();
        let failed = answers.failed.iter();
        let failed = failed.map(|(name, error)| format!("{name}: {error:#}"));
        let page = merge::page(&answers.found, failed.collect(), prices.note())?;
        args.page.write(&page)?;
        return Ok(outcome);
    }
    let usage = usage::read(&args.source)?;
    let (date, source) = (minute(Timestamp::now()), args.source.name());
    let html = page(&usage, caution, &prices, [&date, &source])?;
    args.page.write(&html)?;
    Ok(Outcome::Done)
}

pub(crate) fn page(
    usage: &[ContainerUsage],
    caution: &str,
    prices: &Prices,
    [date, source]: [&str; 2],
) -> anyhow::Result<String> {
    let (scanned, left_out) = scan::scan_all(usage, caution, prices);
    ensure!(!scanned.is_empty(), "no container has an hour of usage");
    let scan = Scan::new(scanned, &left_out, prices);
    let mut ordered: Vec<&ScannedContainer> = scan.containers.iter().collect();
    ordered.sort_by(|a, b| {
        let [a_saves, b_saves] = [a, b].map(|it| it.savings_per_month.abs());
        let by_severity = b.severity.cmp(&a.severity);
        by_severity.then(b_saves.total_cmp(&a_saves))
    });
    let long = usage.iter().filter(|it| is_long_enough(it));
    let long: Vec<ContainerUsage> = long.cloned().collect();
    let policies = backtest::backtest(&long, prices, WARM_UP_DAYS);
    let plotted = ordered.par_iter().take(MAX_PLOTTED).filter_map(|scanned| {
        let usage = usage.iter().find(|usage| usage.id == scanned.id)?;
        Some((*scanned, container::html(usage, scanned, caution)))
    });
    let plotted: Vec<(&ScannedContainer, Markup)> = plotted.collect();
    let too_small = ordered.iter().filter(|it| it.is_too_small()).count();
    let are_risks = |it: &&(&ScannedContainer, Markup)| it.0.is_too_small();
    let risks = plotted.iter().filter(are_risks).take(MAX_RISKS);
    let mut document = scan.document(prices);
    if !long.is_empty() {
        document.tables.push(overview::policies(&policies));
        document.notes.push(backtest::rules(&long));
    }
    let title = "Plimsoll report";
    let main = html! {
        h1 { (title) } (LINE)
        p.lead { (scan.total.sentence(Some(overview::used_cores(usage)), too_small, &prices.currency)) (overview::killed(usage)) } (LINE)
        dl {
            dt { "Date" } dd { (date) } dt { "Source" } dd { (source) } dt { "Range" } dd { (overview::range(usage)) }
            dt { "Prices" } dd { (prices.note()) } dt { "Method" } dd { "price of failure, caution " (caution) }
        } (LINE)
        (overview::money(&scan, prices))
        h2 { "Where the risk is" } (LINE)
        @for (_, html) in risks.clone() { (html) }
        @let more = too_small - risks.clone().count();
        @if more > 0 { p { (more) " more containers are too small: see the details." } (LINE) }
        @if too_small == 0 { p { "No request is too small for the recorded usage." } (LINE) }
        (overview::changes(&ordered, prices))
        @if !long.is_empty() { (overview::cost_and_risk(&policies, caution)) }
        h2 { "Details" } (LINE)
        @for table in &document.tables { details { summary { (table.title) } (table.html()) } (LINE) }
        @for (scanned, html) in &plotted {
            @if !risks.clone().any(|it| it.0.id == scanned.id) {
                details { summary { (scanned.id) ": " (scanned.finding()) } (html) } (LINE)
            }
        }
        @if plotted.len() < ordered.len() {
            p.note { "Plots of " (plotted.len()) " of " (ordered.len()) " containers: those of the highest severity and \
                the largest savings." } (LINE)
        }
        @for note in document.notes.iter().skip(1) { p.note { (note) } (LINE) }
        @for reason in &scan.left_out { p.note { "Left out: " (reason) "." } (LINE) }
    };
    Ok(html_page(title, &html! {}, &main))
}
