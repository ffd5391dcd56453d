//! One self-contained HTML page: sizes, savings, policies compared, and a plot of each container's
//! usage with its requests. No scripts, and nothing is loaded from the network.

mod merge;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use rayon::prelude::*;
use replay::peers::AnnotatedPolicy;
use replay::{Resource, Series};

use crate::backtest::{self, WARM_UP_DAYS, executor, is_long_enough};
use crate::cluster::{ClusterArgs, ContextArgs};
use crate::failure::Outcome;
use crate::output::{self, Document, escape};
use crate::plot::{Line, PerSlot, Plot};
use crate::prices::{PriceArgs, Prices};
use crate::recommend::SizingArgs;
use crate::scan::{self, Scan, ScannedContainer};
use crate::usage::{self, ContainerUsage, SourceArgs, amount_of};
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

/// Maximum number of containers with plots, those of the largest savings or risks first.
const MAX_PLOTTED: usize = 200;

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
    args.page.write(&page(&usage, caution, &prices)?)?;
    Ok(Outcome::Done)
}

pub(crate) fn page(
    usage: &[ContainerUsage],
    caution: &str,
    prices: &Prices,
) -> anyhow::Result<String> {
    let (scanned, left_out) = scan::scan_all(usage, caution, prices);
    ensure!(!scanned.is_empty(), "no container has an hour of usage");
    let scan = Scan::new(scanned, &left_out, prices);
    let mut document = scan.document(prices);
    "Plimsoll report".clone_into(&mut document.title);
    document.tables.rotate_left(1);
    let long = usage.iter().filter(|it| is_long_enough(it));
    let long: Vec<ContainerUsage> = long.cloned().collect();
    if !long.is_empty() {
        let rows = backtest::backtest(&long, prices, WARM_UP_DAYS);
        let Document { tables, notes, .. } = backtest::document(&rows, &long, prices);
        document.tables.extend(tables);
        document.notes.extend(notes);
    }
    if !left_out.is_empty() {
        let names: Vec<String> = left_out.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        document.notes.push(format!(
            "Left out, with less than an hour of usage: {names}."
        ));
    }
    let mut plotted: Vec<&ScannedContainer> = scan.containers.iter().collect();
    plotted.sort_by(|a, b| {
        let [a_saves, b_saves] = [a, b].map(|it| it.savings_per_month.abs());
        let by_severity = b.severity.cmp(&a.severity);
        by_severity.then(b_saves.total_cmp(&a_saves))
    });
    if plotted.len() > MAX_PLOTTED {
        document.notes.push(format!(
            "Plots of {MAX_PLOTTED} of {} containers: those of the highest severity and the largest savings.",
            plotted.len()
        ));
        plotted.truncate(MAX_PLOTTED);
    }
    let details = plotted.par_iter().filter_map(|scanned| {
        let usage = usage.iter().find(|usage| usage.id == scanned.id)?;
        Some(details(usage, scanned, caution))
    });
    let details: Vec<String> = details.collect();
    let details = format!("<h2>Usage and requests</h2>\n{}", details.concat());
    Ok(output::page(&document, "", &details))
}

/// Plots of a container, the finding in words, and its requests as YAML.
fn details(usage: &ContainerUsage, scanned: &ScannedContainer, caution: &str) -> String {
    let name = usage.id.to_string();
    let mut text = format!("<section><h3>{}</h3>\n", escape(&name));
    for (resource, word, unit, scanned) in [
        (Resource::Cpu, "CPU", "millicores", &scanned.cpu),
        (Resource::Memory, "Memory", "MiB", &scanned.memory),
    ] {
        let pods = usage.series(resource);
        if pods.is_empty() {
            continue;
        }
        let plot = plot_of(usage, &pods, resource, caution);
        let _ = writeln!(
            text,
            "<p>{}</p>\n<div class=\"wide\" tabindex=\"0\">{}</div>",
            escape(&sentence(word, &pods, unit, scanned)),
            plot.svg(&format!("{word} of {name} in {unit}"))
        );
    }
    text + &yaml(scanned) + "</section>\n"
}

fn sentence(word: &str, pods: &[Series], unit: &str, scanned: &scan::ScannedResource) -> String {
    let amounts = pods.iter().flat_map(|pod| &pod.usage);
    let mut amounts: Vec<f64> = amounts.copied().collect();
    amounts.sort_by(f64::total_cmp);
    let at = |share: f64| amounts[((amounts.len() - 1) as f64 * share) as usize];
    let present = match &scanned.request {
        Some(request) => format!("requested {request}"),
        None => "not requested".to_owned(),
    };
    let recommended = scanned.recommended.as_deref().unwrap_or("none");
    format!(
        "{word}: {present}, recommended {recommended} ({}). Usage was below {:.0} {unit} half of the time, below {:.0} for \
         95 % and below {:.0} for 99 %; the highest was {:.0}.",
        scanned.reason,
        at(0.5),
        at(0.95),
        at(0.99),
        at(1.0)
    )
}

fn plot_of(usage: &ContainerUsage, pods: &[Series], resource: Resource, caution: &str) -> Plot {
    let per_slot = PerSlot::of(pods);
    let settings = [("policy", "plimsoll"), ("caution", caution)];
    let mut requests = Vec::new();
    let mut kills = Vec::new();
    if let Some(mut policy) = AnnotatedPolicy::new(resource, &settings) {
        let executor = executor(usage, resource, WARM_UP_DAYS);
        executor.trace_pods(pods, &mut policy, |_, request| requests.push(request));
    }
    let limit = amount_of(usage.limits, resource);
    if let Some(limit) = limit.filter(|_| resource == Resource::Memory) {
        let above = |slot: &usize| per_slot.highest[*slot] >= limit;
        let begins = |slot: &usize| above(slot) && slot.checked_sub(1).is_none_or(|at| !above(&at));
        kills = (0..per_slot.highest.len()).filter(begins).collect();
    }
    let present = amount_of(usage.requests, resource);
    let constants = [
        ("present request", "request", present),
        ("limit", "limit", limit),
    ];
    let mut plot = per_slot.plot(pods.len() > 1, &constants);
    plot.lines
        .push(Line::new("request by Plimsoll", "advice", requests));
    plot.kills = kills;
    plot
}

fn yaml(scanned: &ScannedContainer) -> String {
    let mut lines = String::from("resources:\n  requests:\n");
    for (name, resource) in [("cpu", &scanned.cpu), ("memory", &scanned.memory)] {
        if let Some(amount) = &resource.recommended {
            let _ = writeln!(lines, "    {name}: {amount}");
        }
    }
    let name = escape(&scanned.id.container);
    format!("<details><summary>YAML</summary><pre># container {name}\n{lines}</pre></details>\n")
}
