//! Present and recommended requests of each container, with severity and savings.

mod document;
mod fleet;
pub(crate) mod nodes;
mod replicas;

use std::cmp::Reverse;
use std::collections::HashMap;

use anyhow::bail;
use clap::{Args, ValueEnum};
use indicatif::ParallelProgressIterator as _;
use model::{Cpu, Memory, Quantity};
use rayon::iter::Either;
use rayon::prelude::*;
use replay::Resource;
use serde::{Deserialize, Serialize};

use super::ci::{self, CiFinding, Level, ScanFormat};
use super::output::{self, Document, OutputArgs, or_absent, print_text};
use crate::cluster::{Answers, ClusterArgs, ContextArgs};
use crate::failure::{Failure, Outcome};
use crate::output::numbers::sparkline;
use crate::prices::{PriceArgs, Prices};
use crate::progress::progress;
use crate::recommend::{
    Recommendation, SizingArgs, are_runs, containers_per_pod, recommend, settings,
};
use crate::severity::{Change, Severity};
use crate::usage::{self, ContainerId, ContainerUsage, MIB, SourceArgs, amount_of};

pub(crate) use document::Scan;
pub(crate) use fleet::{VERSION, fleet};

#[derive(Clone, Debug, Args)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) contexts: ContextArgs,
    #[command(flatten, next_help_heading = None)]
    pub(crate) sizing: SizingArgs,
    #[command(flatten)]
    pub(crate) prices: PriceArgs,
    /// Form of the output.
    #[arg(
        short,
        long,
        value_enum,
        default_value = "table",
        value_name = "FORMAT"
    )]
    pub(crate) output: ScanFormat,
    /// No colours. Colours are used on a terminal only, and not if `NO_COLOR` is set.
    #[arg(long)]
    pub(crate) no_color: bool,
    /// Only containers with a finding of at least this severity.
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub(crate) min_severity: Option<Severity>,
    /// Order of the containers.
    #[arg(long, value_enum, default_value_t = Order::Name)]
    pub(crate) sort_by: Order,
    /// Exit with code 3 if a container has a finding of at least this severity.
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub(crate) fail_on: Option<Severity>,
    /// Also show recommended replicas, as Crane's recommender, idle workloads, and the idle nodes of a
    /// cluster.
    #[arg(long)]
    pub(crate) replicas: bool,
    /// Also show usage over the recording, as a line of its highest pod that begins at zero.
    #[arg(long)]
    pub(crate) wide: bool,
    #[command(flatten)]
    pub(crate) idle_nodes: nodes::IdleNodeArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Namespace, workload, container.
    Name,
    /// Largest savings first.
    Savings,
    /// Highest severity first.
    Severity,
}

/// Result for a container of a recording of this length.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScannedContainer {
    #[serde(flatten)]
    pub(crate) id: ContainerId,
    /// Pods with usage in the last hour of the recording.
    pub(crate) pods: usize,
    /// Hours between the first and the last sample.
    pub(crate) hours: f64,
    pub(crate) cpu: ScannedResource,
    pub(crate) memory: ScannedResource,
    /// The higher one of both resources.
    pub(crate) severity: Severity,
    /// Savings per month in the currency of the prices; negative if the recommended requests cost
    /// more, or if there are no requests yet.
    pub(crate) savings_per_month: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScannedResource {
    pub(crate) request: Option<String>,
    /// Recommended request; `None` if no usage was recorded.
    pub(crate) recommended: Option<String>,
    /// Highest recorded usage of a pod.
    pub(crate) highest_usage: Option<String>,
    pub(crate) severity: Severity,
    pub(crate) reason: String,
    #[serde(skip)]
    amounts: Change,
    /// Usage over time as blocks of letters, with `--wide`.
    #[serde(skip)]
    line: Option<String>,
}

/// Nothing is recommended where an HPA scales by the utilization: another request would change the
/// number of pods.
fn resource(
    usage: &ContainerUsage,
    recommendation: &Recommendation,
    resource: Resource,
) -> ScannedResource {
    let samples = usage.pods.iter().flat_map(|pod| pod.of(resource));
    let highest = samples.map(|(_, amount)| *amount).reduce(f64::max);
    let recommended = resource.amount(recommendation.amounts);
    let hpa = match resource {
        Resource::Cpu => &usage.scaled_by.cpu,
        Resource::Memory => &usage.scaled_by.memory,
    };
    let present = amount_of(usage.requests, resource);
    // A short history is no reason for a smaller request.
    let least = present.filter(|_| recommendation.is_young).unwrap_or(0.0);
    let is_recommended = highest.is_some() && hpa.is_none();
    let change = Change {
        present,
        recommended: is_recommended.then(|| recommended.max(least)),
    };
    let mut scanned = ScannedResource::new(resource, change, highest);
    if let Some(hpa) = hpa {
        scanned.severity = Severity::Ok;
        scanned.reason = format!("HPA {hpa} scales by its utilization");
    }
    scanned
}

impl ScannedResource {
    pub(crate) fn new(resource: Resource, change: Change, highest: Option<f64>) -> Self {
        let text = |amount: f64| match resource {
            Resource::Memory => memory_text(Memory::from_bytes((amount * MIB).ceil() as i64)),
            Resource::Cpu => Quantity::from(Cpu::from_millicores(amount.ceil() as i64)).to_string(),
        };
        let (severity, reason) = change.judge(resource == Resource::Memory);
        Self {
            request: change.present.map(text),
            recommended: change.recommended.map(text),
            highest_usage: highest.map(text),
            severity,
            reason,
            amounts: change,
            line: None,
        }
    }
}

impl ScannedContainer {
    fn add_lines(&mut self, usage: &ContainerUsage) {
        let Some(span) = usage.span() else { return };
        let resources = [
            (Resource::Cpu, &mut self.cpu),
            (Resource::Memory, &mut self.memory),
        ];
        for (resource, scanned) in resources {
            let samples = usage.pods.iter().flat_map(|pod| pod.of(resource));
            scanned.line = Some(sparkline(span, samples.copied()));
        }
    }

    /// A container with the number of its pods now, and of those that run at a time.
    pub(crate) fn new(
        id: ContainerId,
        (pods, running): (usize, f64),
        [cpu, memory]: [ScannedResource; 2],
        prices: &Prices,
    ) -> Self {
        Self {
            id,
            pods,
            hours: 0.0,
            severity: cpu.severity.max(memory.severity),
            savings_per_month: running * prices.month(cpu.amounts.saved(), memory.amounts.saved()),
            cpu,
            memory,
        }
    }

    /// Costs per month of the present and of the recommended requests.
    pub(crate) fn costs(&self, prices: &Prices) -> [f64; 2] {
        let [cpu, memory] = [&self.cpu, &self.memory].map(|it| it.amounts.present.unwrap_or(0.0));
        let present = self.pods as f64 * prices.month(cpu, memory);
        [present, present - self.savings_per_month]
    }

    /// Whether a recommended request is notably above the present one.
    pub(crate) fn is_too_small(&self) -> bool {
        let resources = [&self.cpu, &self.memory].into_iter();
        let mut notable = resources.filter(|it| it.severity > Severity::Ok);
        notable.any(|it| it.amounts.saved() < 0.0 && it.amounts.present.is_some())
    }

    /// The finding of the resource with the higher severity.
    pub(crate) fn finding(&self) -> String {
        if self.memory.severity > self.cpu.severity {
            format!("memory: {}", self.memory.reason)
        } else {
            format!("cpu: {}", self.cpu.reason)
        }
    }
}

/// Whole MiB, rounded up; whole bytes below one.
fn memory_text(memory: Memory) -> String {
    let bytes = memory.bytes();
    let mebibyte = 1 << 20;
    let unit = if bytes >= mebibyte { mebibyte } else { 1 };
    let rounded = bytes.saturating_add(unit - 1) / unit * unit;
    Quantity::from_bytes(rounded).to_string()
}

pub(crate) fn scan(
    usage: &ContainerUsage,
    recommendation: &Recommendation,
    prices: &Prices,
    recording_seconds: i64,
) -> ScannedContainer {
    let (start, end) = usage.span().unwrap_or_default();
    let pods = usage.present_pods();
    let running = if are_runs(&usage.id.workload) {
        usage.mean_pods(recording_seconds)
    } else {
        pods as f64
    };
    let mut resources =
        [Resource::Cpu, Resource::Memory].map(|it| resource(usage, recommendation, it));
    if let Some(heap) = &usage.heap {
        resources[1].reason.extend(["; ", heap]);
    }
    ScannedContainer {
        hours: (end - start) as f64 / 3600.0,
        ..ScannedContainer::new(usage.id.clone(), (pods, running), resources, prices)
    }
}

/// Results for all containers, and the containers without a recommendation.
pub(crate) fn scan_all(
    usage: &[ContainerUsage],
    caution: &str,
    prices: &Prices,
) -> (Vec<ScannedContainer>, Vec<ContainerId>) {
    let settings = settings(caution);
    let containers = containers_per_pod(usage);
    let spans = || usage.iter().filter_map(ContainerUsage::span);
    let (start, end) = (spans().map(|it| it.0).min(), spans().map(|it| it.1).max());
    let seconds = end.unwrap_or_default() - start.unwrap_or_default();
    let bar = progress(usage.len(), "containers sized");
    let usage = usage.par_iter().progress_with(bar);
    usage.partition_map(|usage| {
        let containers = containers[&usage.id.pod()];
        match recommend(usage, &settings, containers) {
            Some(found) => Either::Left(scan(usage, &found, prices, seconds)),
            None => Either::Right(usage.id.clone()),
        }
    })
}

pub(crate) fn run(args: &ScanArgs) -> anyhow::Result<Outcome> {
    if !args.source.is_cluster() && args.idle_nodes.is_set() {
        let message = "--idle-node-cpu-requests and --idle-node-memory-requests need the nodes of a \
                       cluster: leave out the files and --sample";
        bail!(Failure::Usage(message.to_owned()));
    }
    args.source.allow(&args.contexts)?;
    let prices = Prices::read(&args.prices)?;
    let cluster = &args.source.prometheus.cluster;
    let read = |cluster: &ClusterArgs| args.scan(cluster, &prices);
    let answers = args.contexts.read(cluster, read)?.some()?;
    match args.output {
        ScanFormat::Ci(format) => {
            let findings = findings(&answers.found);
            print_text(ci::render("plimsoll scan", &findings, format))?;
        }
        ScanFormat::Document(form) => {
            let (output, no_color) = (form, args.no_color);
            let document = args.document(&answers, &prices);
            output::print(&document, &OutputArgs { output, no_color })?;
        }
    }
    let outcome = answers.outcome();
    let scans = || answers.found.iter().map(|(_, scan)| scan);
    for (cluster, scan) in &answers.found {
        let cluster = answers.are_named.then(|| format!("{cluster}: "));
        let cluster = cluster.unwrap_or_default();
        for reason in &scan.left_out {
            eprintln!("left out: {cluster}{reason}");
        }
    }
    let worst = scans().filter_map(|scan| scan.worst).max();
    let fails = |least| worst.is_some_and(|worst| worst >= least);
    Ok(if args.fail_on.is_some_and(fails) {
        Outcome::Findings
    } else if scans().all(|scan| scan.left_out.is_empty()) {
        outcome
    } else {
        Outcome::Partial
    })
}

impl ScanArgs {
    /// The scan of a cluster, or of the files.
    fn scan(&self, cluster: &ClusterArgs, prices: &Prices) -> anyhow::Result<Scan> {
        let source = self.source.within(cluster);
        let usage = usage::read(&source)?;
        let (mut scanned, left_out) = scan_all(&usage, &self.sizing.caution, prices);
        if self.wide {
            let usage: HashMap<_, _> = usage.iter().map(|usage| (&usage.id, usage)).collect();
            for container in &mut scanned {
                if let Some(usage) = usage.get(&container.id) {
                    container.add_lines(usage);
                }
            }
        }
        let worst = scanned.iter().map(|container| container.severity).max();
        if let Some(least) = self.min_severity {
            scanned.retain(|container| container.severity >= least);
        }
        self.sort_by.sort(&mut scanned, |container| container);
        let mut scan = Scan::new(scanned, &left_out, prices);
        scan.worst = worst;
        scan.unit_slips = document::unit_slips(&usage);
        if self.replicas {
            scan.replicas = Some(replicas::replicas(&usage));
        }
        if self.replicas && source.is_cluster() {
            match nodes::read(cluster, self.idle_nodes) {
                Ok(nodes) => scan.nodes = Some(nodes),
                Err(error) => scan.left_out.push(format!("idle nodes: {error:#}")),
            }
        }
        Ok(scan)
    }

    fn document(&self, answers: &Answers<Scan>, prices: &Prices) -> Document {
        match answers.found.as_slice() {
            [(_, scan)] if !answers.are_named => scan.document(prices),
            scans => {
                let mut document = fleet(scans, self.sort_by);
                document.notes.insert(0, prices.note());
                answers.add_left_out(&mut document.data);
                document
            }
        }
    }
}

impl Order {
    /// Sorts what has a container each.
    pub(super) fn sort<T>(self, list: &mut [T], container: impl Fn(&T) -> &ScannedContainer) {
        match self {
            Self::Name => {}
            Self::Savings => list.sort_by(|a, b| {
                let [a, b] = [a, b].map(|it| container(it).savings_per_month);
                b.total_cmp(&a)
            }),
            Self::Severity => list.sort_by_key(|it| Reverse(container(it).severity)),
        }
    }
}

const HELP: &str = "Set the recommended request: `plimsoll manifests` prints it";

/// All resources, with the names of their clusters; an empty name is left out.
fn findings(scans: &[(String, Scan)]) -> Vec<CiFinding> {
    let containers = scans.iter().flat_map(|(cluster, scan)| {
        let containers = scan.containers.iter();
        containers.map(move |container| (cluster.as_str(), container))
    });
    let findings = containers.flat_map(|(cluster, container)| {
        let resources = [("cpu", &container.cpu), ("memory", &container.memory)];
        resources.map(|(name, resource)| finding(&subject(cluster, container), name, resource))
    });
    findings.collect()
}

/// Names with slashes between them, without the empty ones.
fn subject(cluster: &str, container: &ScannedContainer) -> String {
    let id = &container.id;
    let mut names = vec![cluster, &id.namespace, &id.workload, &id.container];
    names.retain(|name| !name.is_empty());
    names.join("/")
}

fn finding(subject: &str, name: &str, resource: &ScannedResource) -> CiFinding {
    let change = resource.amounts;
    let (kind, words) = if change.present.is_none() {
        ("missing", "is missing")
    } else if change.saved() < 0.0 {
        ("too-small", "is below the recommended one")
    } else {
        ("too-large", "is above the recommended one")
    };
    let [request, recommended] =
        [&resource.request, &resource.recommended].map(|it| or_absent(it.as_ref()));
    CiFinding {
        case: format!("{name}-request"),
        rule: format!("{name}-request-{kind}"),
        description: format!("The {name} request {words}"),
        help: HELP.to_owned(),
        subject: subject.to_owned(),
        level: match resource.severity {
            Severity::Ok => Level::Passed,
            Severity::Info => Level::Note,
            Severity::Warning => Level::Warning,
            Severity::Critical => Level::Error,
        },
        message: format!(
            "{name} request {request}, recommended {recommended}: {}",
            resource.reason
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::tests::{resources, usage as usage_of};

    const RECOMMENDED: Recommendation = Recommendation {
        amounts: sizing::Amounts {
            cpu: Cpu::from_millicores(100),
            memory: Memory::from_bytes(0),
        },
        is_young: false,
    };

    #[test]
    fn savings_of_runs_count_the_time_in_which_they_run() {
        // An hour on each of four days, the last one at the end.
        let run = |day: i64| usage::PodUsage {
            cpu: (276..288)
                .map(|slot| (86_400 * day + 300 * slot, 100.0))
                .collect(),
            ..usage::PodUsage::default()
        };
        let runs = [0, 1, 2, 3].map(run);
        let usage = |workload: &str| usage_of(workload, resources(Some(1100), None), &runs);
        let prices = Prices::default();
        let all = [usage("cronjob/report"), usage("deployment/web")];
        let of = |usage: &ContainerUsage| {
            let four_days = 4 * 86_400 - 300;
            scan(usage, &RECOMMENDED, &prices, four_days).savings_per_month
        };
        let [runs, always] = all.each_ref().map(of);
        let difference = 24.0 * runs - always;
        assert!(difference.abs() < 1e-6 * always, "{runs} {always}");
    }

    #[test]
    fn the_finding_of_memory_names_the_heap() {
        let mut usage = usage_of("deployment/web", resources(None, Some(1 << 30)), &[]);
        usage.heap = Some("the heap of Go stays at GOMEMLIMIT=1GiB".to_owned());
        let scanned = scan(&usage, &RECOMMENDED, &Prices::default(), 0);
        let named = [scanned.cpu, scanned.memory].map(|it| it.reason.contains("; the heap of Go"));
        assert_eq!(named, [false, true]);
    }

    #[test]
    fn memory_is_shown_in_whole_mebibytes() {
        for (bytes, expected) in [(1000, "1k"), (1 << 20, "1Mi"), ((1 << 30) + 1, "1025Mi")] {
            assert_eq!(memory_text(Memory::from_bytes(bytes)), expected);
        }
    }
}
