//! The overview: money by namespace, the largest changes, and cost against risk of the policies.

use jiff::Timestamp;
use maud::{Markup, html};
use plot::{Layer, Mark, Plot, Scale, Shape, Unit, bars};
use replay::Resource;

use crate::backtest::BacktestRow;
use crate::output::numbers::{minute, money as money_text, percent};
use crate::output::{LINE, Table, or_absent};
use crate::prices::Prices;
use crate::scan::{Scan, ScannedContainer};
use crate::usage::{ContainerUsage, amount_of};
use crate::usage_plot::PerSlot;

const MAX_NAMESPACES: usize = 20;
const MAX_CHANGES: usize = 10;
/// A title, the number of a policy, and that in words.
type Risk = (
    &'static str,
    fn(&BacktestRow) -> f64,
    fn(&BacktestRow) -> String,
);
const RISKS: [Risk; 2] = [
    (
        "Cost by minutes without enough CPU, per pod and day",
        |it| it.cpu_short_minutes_per_day,
        shortage,
    ),
    (
        "Cost by OOM kills per 1,000 pod-days",
        |it| it.oom_kills_per_1000_pod_days,
        kills,
    ),
];
/// Border of the plots of risk, in the largest risk of the policies.
const BORDER: f64 = 1.25;

pub(super) fn range(usage: &[ContainerUsage]) -> String {
    let spans = usage.iter().filter_map(ContainerUsage::span);
    let (start, end) = spans.fold((i64::MAX, 0), |all, it| (all.0.min(it.0), all.1.max(it.1)));
    let days = end.saturating_sub(start) as f64 / 86_400.0;
    let [start, end] = [start, end].map(|it| Timestamp::from_second(it).unwrap_or_default());
    format!("{} to {}, {days:.1} days", minute(start), minute(end))
}

/// Mean CPU usage of all pods in cores.
pub(super) fn used_cores(usage: &[ContainerUsage]) -> f64 {
    let used = usage.iter().map(|usage| {
        let per_slot = PerSlot::of(&usage.series(Resource::Cpu));
        per_slot.sums.iter().sum::<f64>() / per_slot.sums.len().max(1) as f64
    });
    used.sum::<f64>() / 1000.0
}

/// A sentence about the containers whose memory usage reached the limit, if there are any.
pub(super) fn killed(usage: &[ContainerUsage]) -> String {
    let reached = usage.iter().filter(|usage| {
        let limit = amount_of(usage.limits, Resource::Memory).unwrap_or(f64::MAX);
        let mut samples = usage.pods.iter().flat_map(|pod| &pod.memory);
        samples.any(|(_, amount)| *amount >= limit)
    });
    match reached.count() {
        0 => String::new(),
        1 => " 1 container reached its memory limit: OOM kills.".to_owned(),
        several => format!(" {several} containers reached their memory limits: OOM kills."),
    }
}

/// Costs per month before and after as bars, by name, with a text.
fn costs(lines: &[(String, [f64; 2], String)], currency: &str) -> Markup {
    let all = lines.iter().flat_map(|line| line.1);
    let most = all.fold(f64::MIN_POSITIVE, f64::max);
    html! {
        table.costs { tbody { (LINE) @for (name, [before, after], text) in lines {
            @let change = format!("{} → {}", money_text(*before, ""), money_text(*after, currency));
            @let parts = [("request", 0.0, before / most), ("advice", 0.0, after / most)];
            tr { td { b { (name) } br; (text) } td { (bars(&format!("{name}: {change}"), &parts)) (change) } } (LINE)
        } } } (LINE)
    }
}

pub(super) fn money(scan: &Scan, prices: &Prices) -> Markup {
    let lines = scan.namespaces().map(|(name, totals)| {
        let name = Some(name).filter(|name| !name.is_empty());
        let name = name.unwrap_or("no namespace").to_owned();
        let containers = format!("{} containers", totals.containers);
        (name, totals.costs(prices), containers)
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_by(|one, other| other.1[0].total_cmp(&one.1[0]));
    lines.truncate(MAX_NAMESPACES);
    html! {
        h2 { "Where the money is" } (LINE)
        p.note { "Cost of the requests per month: " span.request { "■ present" } ", " span.advice { "■ recommended" } }
        (costs(&lines, &prices.currency))
    }
}

pub(super) fn changes(containers: &[&ScannedContainer], prices: &Prices) -> Markup {
    let mut largest = containers.to_vec();
    let saved = |container: &ScannedContainer| container.savings_per_month.abs();
    largest.sort_by(|one, other| saved(other).total_cmp(&saved(one)));
    let lines = largest.iter().take(MAX_CHANGES).map(|container| {
        let [cpu, memory] = [&container.cpu, &container.memory].map(|it| {
            let amounts = [&it.request, &it.recommended];
            amounts.map(|amount| or_absent(amount.as_ref())).join(" → ")
        });
        let text = format!("CPU {cpu}, memory {memory}");
        (container.id.to_string(), container.costs(prices), text)
    });
    let lines: Vec<_> = lines.collect();
    html! { h2 { "Largest changes" } (LINE) (costs(&lines, &prices.currency)) }
}

fn kills(row: &BacktestRow) -> String {
    match row.oom_kills_per_1000_pod_days {
        none if none < 0.05 => "no OOM kills".to_owned(),
        few if few < 1000.0 => format!("{few:.1} OOM kills per 1,000 pod-days"),
        many if many < 24_000.0 => format!("{:.0} OOM kills per pod and day", many / 1000.0),
        _ => "too little memory nearly all the time".to_owned(),
    }
}

fn shortage(row: &BacktestRow) -> String {
    match row.cpu_short_minutes_per_day {
        none if none < 0.05 => "CPU never short".to_owned(),
        minutes => format!("CPU short for {minutes:.1} min per pod and day"),
    }
}

/// The policies without their prices: savings have one definition.
pub(super) fn policies(rows: &[BacktestRow]) -> Table {
    let mut table = Table::of(
        "Sizing policies",
        "Policy=policy| CPU slack=cpuSlack:1 %| Memory slack=memorySlack:1 %| Changes per day=changesPerDay:2\
         | Cost to present=relativeCost:0 %|OOM kills|CPU",
        rows,
    );
    for (row, policy) in table.rows.iter_mut().zip(rows) {
        row.cells.truncate(5);
        row.cells.extend([kills(policy), shortage(policy)]);
    }
    table
}

pub(super) fn cost_and_risk(rows: &[BacktestRow], caution: &str) -> Markup {
    let chosen = match caution {
        "normal" => "plimsoll".to_owned(),
        other => format!("plimsoll, caution {other}"),
    };
    html! {
        h2 { "Cost and risk" } (LINE)
        p { (reason(rows, &chosen)) } (LINE)
        div.pair { @for risk in RISKS {
            @if rows.iter().skip(1).any(|row| risk.1(row) >= 0.05) { (frontier(rows, &chosen, risk).figure()) }
        } } (LINE)
    }
}

/// The risk of the present requests, and the reason why the chosen policy is not the cheapest one.
fn reason(rows: &[BacktestRow], chosen: &str) -> String {
    let costs = |begin: &str, row: &BacktestRow, end: &str| {
        let (cost, policy) = (percent(row.relative_cost, 0), row.policy);
        let (kills, shortage) = (kills(row), shortage(row));
        format!(" {begin}{policy} cost {cost}{end}: {kills}, {shortage}.")
    };
    let chosen = rows.iter().find(|row| row.policy == chosen);
    let by_cost = |a: &&BacktestRow, b: &&BacktestRow| a.relative_cost.total_cmp(&b.relative_cost);
    let cheapest = rows.iter().min_by(by_cost);
    let cheaper = cheapest.filter(|row| chosen.is_none_or(|chosen| chosen.policy != row.policy));
    let present = rows.first().map(|row| costs("the ", row, ""));
    let chosen = chosen.map(|row| costs("The requests of ", row, ""));
    let cheaper = cheaper.map(|row| costs("Those of ", row, ", the least"));
    let sentences = present.into_iter().chain(chosen).chain(cheaper);
    format!(
        "In a replay of this recording,{}",
        sentences.collect::<String>()
    )
}

/// Relative cost by a risk. A risk beyond those of the compared policies is at the border.
fn frontier(rows: &[BacktestRow], chosen: &str, (title, risk, words): Risk) -> Plot {
    let most = BORDER * rows.iter().skip(1).map(risk).fold(1.0, f64::max);
    let at = |row: &BacktestRow| (risk(row).min(most), row.relative_cost);
    let marks = |is_chosen: bool| {
        let of = |row: &&BacktestRow| (row.policy == chosen) == is_chosen;
        let marks = rows.iter().filter(of).map(|row| {
            let title = format!("{}: {}", row.policy, words(row));
            let beyond = if risk(row) > most { " ▸" } else { "" };
            let (at, label) = (at(row), format!("{}{beyond}", row.policy));
            Mark { at, title, label }
        });
        Shape::Marks(marks.collect())
    };
    let mut line: Vec<(f64, f64)> = rows.iter().map(at).collect();
    line.sort_by(|one, other| one.1.total_cmp(&other.1));
    line.dedup_by(|next, last| next.0 >= last.0);
    let label = |share| percent(share, 0);
    let share = Unit {
        label,
        ..Unit::NUMBER
    };
    let frontier = "no policy is cheaper and safer";
    Plot {
        title: title.to_owned(),
        x: Scale::FromZero(Unit::NUMBER),
        y: Scale::FromZero(share),
        layers: vec![
            Layer::new(frontier, "request", Shape::Line(line)),
            Layer::new("policies by cost", "usage", marks(false)),
            Layer::new("chosen", "advice", marks(true)),
        ],
    }
}
