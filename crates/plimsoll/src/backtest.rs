//! Replay of sizing policies over recorded usage: what each would have wasted, and how often a
//! container would have been short.
//!
//! Rules of the replay: [`replay::Executor`], with decisions every hour and raises in between. The
//! first request is the recorded one, or the highest usage if none is recorded.

use anyhow::ensure;
use clap::Args;
use indicatif::{ParallelProgressIterator as _, ProgressBar};
use rayon::prelude::*;
use replay::peers::{AnnotatedPolicy, Krr, Provisioned, Vpa};
use replay::{EntityScore, Executor, Grid, Policy, Resource, Score, Series};
use serde::Serialize;

use crate::failure::Outcome;
use crate::output::{self, Document, OutputArgs, Table};
use crate::prices::{HOURS_PER_MONTH, PriceArgs, Prices};
use crate::progress::progress;
use crate::usage::{self, ContainerUsage, SourceArgs};

const DAY: i64 = 86_400;
/// Days at the start of a recording that do not count, at most half of it.
pub(crate) const WARM_UP_DAYS: u16 = 8;
/// Least length of a recording. A shorter one has no half to learn from.
const LEAST_RECORDING: i64 = 2 * DAY;

#[derive(Clone, Debug, Args)]
pub(crate) struct BacktestArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten, next_help_heading = None)]
    pub(crate) prices: PriceArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Days at the start of which the policies learn and that do not count. At most half of each
    /// recording is left out.
    #[arg(long, default_value_t = WARM_UP_DAYS, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(0..=365))]
    pub(crate) warm_up: u16,
}

type NewPolicy = fn(Resource) -> Box<dyn Policy>;

/// The compared policies by their names; the first one keeps the present requests.
const POLICIES: [(&str, NewPolicy); 8] = [
    ("present requests", |_| Box::new(Provisioned)),
    ("VPA defaults", |it| Box::new(Vpa::new(it).with_updater())),
    ("Crane", |it| annotated(it, &[("policy", "crane")])),
    ("Autopilot", |it| {
        annotated(it, &[("policy", "autopilot-window")])
    }),
    ("KRR simple", |it| Box::new(Krr::new(it))),
    ("plimsoll, caution low", |it| plimsoll(it, "low")),
    ("plimsoll", |it| annotated(it, &[("policy", "plimsoll")])),
    ("plimsoll, caution high", |it| plimsoll(it, "high")),
];

fn plimsoll(resource: Resource, caution: &str) -> Box<dyn Policy> {
    annotated(resource, &[("policy", "plimsoll"), ("caution", caution)])
}

/// The policy that these annotations select, without their prefix.
fn annotated(resource: Resource, settings: &[(&str, &str)]) -> Box<dyn Policy> {
    let policy = AnnotatedPolicy::new(resource, settings);
    Box::new(policy.expect("valid settings of a known policy"))
}

/// Result of a policy over all containers.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BacktestRow {
    pub(crate) policy: &'static str,
    /// Unused share of the requested CPU, 0 to 1.
    pub(crate) cpu_slack: f64,
    /// Unused share of the requested memory, 0 to 1.
    pub(crate) memory_slack: f64,
    /// Times that memory usage exceeded the request, per 1,000 days of a pod.
    pub oom_kills_per_1000_pod_days: f64,
    /// Minutes per day of a pod in which CPU usage exceeded the request.
    pub(crate) cpu_short_minutes_per_day: f64,
    /// Applied changes of requests per day of a pod, CPU and memory together.
    pub(crate) changes_per_day: f64,
    /// Price of the requests for a month.
    pub(crate) cost_per_month: f64,
    /// The same divided by that of the present requests.
    pub(crate) relative_cost: f64,
}

/// Length of the recording at whose start policies learn: `days`, at most half of it.
pub(crate) fn warm_up(usage: &ContainerUsage, days: u16) -> i64 {
    let (start, end) = usage.span().unwrap_or_default();
    (i64::from(days) * DAY).min((end - start) / 2)
}

/// Score of a policy over the containers, and the sum of their mean requests, in millicores or MiB.
fn replay_all(
    usage: &[ContainerUsage],
    resource: Resource,
    policy: NewPolicy,
    days: u16,
    bar: &ProgressBar,
) -> (Score, f64) {
    let replayed = usage.par_iter().progress_with(bar.clone());
    let replayed = replayed.filter_map(|usage| {
        let pods = usage.series(resource);
        let executor = executor(usage, resource, days);
        let score = executor.trace_pods(&pods, policy(resource).as_mut(), |_, _| ());
        let slots = scored_slots(&pods, executor.warm_up)?;
        let mean_request = score.requested / slots;
        Some((score, mean_request))
    });
    let replayed: Vec<(EntityScore, f64)> = replayed.collect();
    let requests = replayed.iter().map(|(_, mean_request)| mean_request).sum();
    (Score::of(replayed.iter().map(|(score, _)| score)), requests)
}

pub(crate) fn executor(usage: &ContainerUsage, resource: Resource, days: u16) -> Executor {
    Executor {
        early_raises: true,
        warm_up: warm_up(usage, days),
        ..Executor::new(resource)
    }
}

/// Number of scored slots from the earliest start of a pod to the last end; `None` without any.
fn scored_slots(pods: &[Series], warm_up: i64) -> Option<f64> {
    let scored = Grid::of(pods)?.slots.checked_sub(pods[0].slots(warm_up))?;
    (scored > 0).then_some(scored as f64)
}

pub(crate) fn backtest(usage: &[ContainerUsage], prices: &Prices, days: u16) -> Vec<BacktestRow> {
    let bar = progress(2 * POLICIES.len() * usage.len(), "replays");
    let mut rows: Vec<BacktestRow> = POLICIES
        .into_iter()
        .map(|(name, policy)| {
            let replay = |resource| replay_all(usage, resource, policy, days, &bar);
            let (cpu, millicores) = replay(Resource::Cpu);
            let (memory, mib) = replay(Resource::Memory);
            let cost_per_month = prices.month(millicores, mib);
            BacktestRow {
                policy: name,
                cpu_slack: cpu.aggregate_slack,
                memory_slack: memory.aggregate_slack,
                oom_kills_per_1000_pod_days: 1000.0 * memory.ooms,
                cpu_short_minutes_per_day: 1440.0 * cpu.short_time,
                changes_per_day: cpu.changes + memory.changes,
                cost_per_month,
                relative_cost: 1.0,
            }
        })
        .collect();
    let present = rows[0].cost_per_month;
    for row in &mut rows {
        row.relative_cost = if present > 0.0 {
            row.cost_per_month / present
        } else {
            1.0
        };
    }
    rows
}

pub(crate) fn run(args: &BacktestArgs) -> anyhow::Result<Outcome> {
    let prices = Prices::read(&args.prices)?;
    let mut usage = usage::read(&args.source)?;
    let all = usage.len();
    usage.retain(is_long_enough);
    ensure!(
        !usage.is_empty(),
        "no container has two days of usage: a replay needs one to learn and one to judge"
    );
    let left_out = all - usage.len();
    if left_out > 0 {
        eprintln!("left out: {left_out} containers with less than two days of usage");
    }
    let rows = backtest(&usage, &prices, args.warm_up);
    output::print(&document(&rows, &usage, &prices), &args.output)?;
    Ok(Outcome::of(left_out == 0))
}

/// Whether a recording has a half to learn from and a half to judge.
pub(crate) fn is_long_enough(usage: &ContainerUsage) -> bool {
    // The last slot has a length of its own.
    let span = usage.span().map_or(0, |(start, end)| end - start + 3600);
    span >= LEAST_RECORDING
}

/// The rules of the replay in words.
pub(crate) fn rules(usage: &[ContainerUsage]) -> String {
    format!(
        "{} containers. A policy decides every hour and may raise a request in between; changes of less than \
         10 % are not applied. Memory usage above the request counts as an OOM kill and raises the request for a \
         day; present requests are never raised.",
        usage.len()
    )
}

pub(crate) fn document(
    rows: &[BacktestRow],
    usage: &[ContainerUsage],
    prices: &Prices,
) -> Document {
    let mut table = Table::of(
        "Sizing policies",
        "Policy=policy| CPU slack=cpuSlack:1 %| Memory slack=memorySlack:1 %\
         | OOM kills per 1000 pod-days=oomKillsPer1000PodDays:1\
         | CPU short, min per day=cpuShortMinutesPerDay:1| Changes per day=changesPerDay:2\
         | Cost per month=costPerMonth:2| Cost to present",
        rows,
    );
    for (cells, row) in table.rows.iter_mut().zip(rows) {
        cells.cells[7] = format!("{:+.0} %", 100.0 * (row.relative_cost - 1.0));
    }
    Document {
        title: "Plimsoll backtest".to_owned(),
        tables: vec![table],
        notes: vec![
            rules(usage),
            format!(
                "Cost in {} for {HOURS_PER_MONTH:.0} hours. VPA, Crane, Autopilot and KRR with their defaults and without least sizes.",
                prices.currency
            ),
        ],
        data: serde_json::json!({
            "currency": prices.currency,
            "containers": usage.len(),
            "policies": rows,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::tests::{constant, resources, usage};

    #[test]
    fn present_requests_keep_their_cost_and_two_pods_count_twice() {
        let pod = constant(4, Some(500.0), Some(256.0));
        let pods = [pod.clone(), pod];
        let usage = usage("deployment/web", resources(Some(1000), None), &pods);
        let prices = Prices {
            currency: "EUR".to_owned(),
            cpu_core_hour: 1.0,
            memory_gib_hour: 1.0,
        };
        let rows = backtest(&[usage], &prices, 8);
        assert!((rows[0].cpu_slack - 0.5).abs() < 1e-9, "{:?}", rows[0]);
        // Two pods with a core and, for lack of a request, their highest memory usage.
        assert!((rows[0].cost_per_month - 730.0 * 2.5).abs() < 1e-6);
        let ours = rows.iter().find(|row| row.policy == "plimsoll");
        let ours = ours.expect("our own policy");
        assert!(ours.relative_cost < 0.9 && ours.cpu_short_minutes_per_day < 1e-9);
    }
}
