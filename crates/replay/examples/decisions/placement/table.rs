//! The tables and plots.

use rayon::prelude::*;
use replay::Resource;

use super::packing::{NODE, Packing, PackingScore, RequestChange, Scheduler, Sizing};
use super::search::{Inputs, MOST_NODES};
use super::ways;
use crate::lines::{Axis, Line, svg};

const SIZINGS: [(&str, Sizing); 5] = [
    ("provisioned", Sizing::Provisioned),
    ("VPA", Sizing::Vpa),
    ("plimsoll, caution normal", Sizing::Plimsoll("normal")),
    ("plimsoll, caution low", Sizing::Plimsoll("low")),
    ("plimsoll, caution 0.2", Sizing::Plimsoll("0.2")),
];
/// Numbers of nodes of the plots.
const PLOTTED: [usize; 6] = [24, 26, 28, 30, 32, 34];

type Way = (String, Scheduler);

fn all() -> Vec<Way> {
    let mut all = ways::peers();
    all.push(ways::ours());
    all
}

/// Prints the least numbers of nodes, and the same replays with rebalancing.
pub(crate) fn print(inputs: &Inputs) {
    let ways = all();
    let mut sections = Vec::new();
    for (name, sizing) in SIZINGS {
        let started = std::time::Instant::now();
        let requests = inputs.workload.requests(sizing, NODE);
        let of = |(_, scheduler): &Way| inputs.least(&requests, *scheduler);
        let found: Vec<_> = ways.par_iter().map(of).collect();
        print_least(name, &ways, &found);
        print_sizes(inputs, sizing);
        let with_rebalancing: Vec<PackingScore> = ways
            .par_iter()
            .zip(&found)
            .map(|((_, scheduler), (nodes, _))| {
                let packing = Packing {
                    nodes: nodes.unwrap_or(MOST_NODES),
                    scheduler: *scheduler,
                    rebalances: true,
                };
                inputs.score(&requests, packing)
            })
            .collect();
        sections.push((name, found, with_rebalancing));
        eprintln!("{name}: {:.0} s", started.elapsed().as_secs_f64());
    }
    for (name, found, with_rebalancing) in &sections {
        print_rebalancing(name, &ways, found, with_rebalancing);
    }
}

fn nodes_text(nodes: Option<usize>) -> String {
    nodes.map_or_else(|| format!("> {MOST_NODES}"), |nodes| nodes.to_string())
}

fn print_least(sizing: &str, ways: &[Way], found: &[(Option<usize>, PackingScore)]) {
    println!("\n### Requests: {sizing}\n");
    println!(
        "| scheduler | nodes | in use | hot % | hot minutes/day | P95 % | variance | memory overflow % | pending % | moves/pod-day |"
    );
    println!("|{}", "---|".repeat(10));
    for ((name, _), (nodes, score)) in ways.iter().zip(found) {
        println!(
            "| {name} | {} | {:.1} | {:.2} | {:.0} | {} | {:.0} | {:.3} | {:.3} | {:.3} |",
            nodes_text(*nodes),
            score.nodes_in_use(),
            score.hot_percent(),
            score.hot_minutes_per_day(),
            score.p95_percent(),
            score.variance(),
            score.overflow_percent(),
            score.pending_percent(),
            score.moves_per_pod_day().0,
        );
    }
}

fn print_sizes(inputs: &Inputs, sizing: Sizing) {
    let [cpu, memory] = [Resource::Cpu, Resource::Memory]
        .map(|resource| inputs.workload.sizing_score(sizing, resource));
    println!(
        "\nSizes on their own: CPU under-provisioned {:.2} %, {:.3} OOM kills per pod and day.",
        100.0 * cpu.short_time,
        memory.ooms
    );
}

fn print_rebalancing(
    sizing: &str,
    ways: &[Way],
    found: &[(Option<usize>, PackingScore)],
    with_rebalancing: &[PackingScore],
) {
    println!("\n### Rebalancing, requests: {sizing}\n");
    println!(
        "| scheduler | nodes | hot %, off | hot %, on | pending %, off | pending %, on | moves/pod-day by rebalancing |"
    );
    println!("|{}", "---|".repeat(7));
    let rows = ways.iter().zip(found).zip(with_rebalancing);
    for (((name, _), (nodes, off)), on) in rows {
        println!(
            "| {name} | {} | {:.2} | {:.2} | {:.3} | {:.3} | {:.4} |",
            nodes_text(*nodes),
            off.hot_percent(),
            on.hot_percent(),
            off.pending_percent(),
            on.pending_percent(),
            on.moves_per_pod_day().1,
        );
    }
}

/// Pending pods and hot slots by the number of nodes, with our requests and the caution `low`.
pub(crate) fn plots(inputs: &Inputs) -> [(String, String); 2] {
    let requests = inputs.workload.requests(Sizing::Plimsoll("low"), NODE);
    let ways = all();
    let scores: Vec<Vec<PackingScore>> = ways
        .par_iter()
        .map(|(_, scheduler)| of_way(inputs, &requests, *scheduler))
        .collect();
    let plot = |title: &str, number: fn(&PackingScore) -> f64| {
        let lines = ways.iter().zip(&scores).map(|((name, _), scores)| Line {
            name: name.clone(),
            points: PLOTTED
                .iter()
                .zip(scores)
                .map(|(nodes, score)| (*nodes as f64, number(score)))
                .collect(),
        });
        svg(
            format!("360 pods of Bitbrains, requests by plimsoll, caution low: {title}"),
            Axis::linear("nodes of 16 cores, 64 GiB"),
            Axis::logarithmic("%"),
            lines.collect(),
        )
    };
    [
        (
            "placement-pending.svg".to_owned(),
            plot("time of pending pods", PackingScore::pending_percent),
        ),
        (
            "placement-hot.svg".to_owned(),
            plot("hot slots", PackingScore::hot_percent),
        ),
    ]
}

fn of_way(inputs: &Inputs, requests: &[RequestChange], scheduler: Scheduler) -> Vec<PackingScore> {
    let packing = |nodes: &usize| Packing {
        nodes: *nodes,
        scheduler,
        rebalances: false,
    };
    let score = |nodes| inputs.score(requests, packing(nodes));
    PLOTTED.iter().map(score).collect()
}
