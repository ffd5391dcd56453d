//! Tables of a VPA and a native HPA on the same metric: size and number of the pods, day by day, of the
//! recorded demands and of a generated step, which the plots show.

#[cfg(test)]
mod tests;
mod workload;

use std::path::Path;

use rayon::prelude::*;
use replay::horizontal::Demand;
use testing::hpa::PerPodTarget;

use crate::Plots;
use crate::csv::{NamedDemand, read_demands};
use crate::lines::{Axis, Line, svg};
use workload::{Day, FIRST_REQUEST, Sizing, VpaWithHpa};

const DAYS: usize = 14;
/// Days of the table of the step.
const SHOWN: [usize; 6] = [1, 2, 4, 7, 10, 14];

type Way = (&'static str, VpaWithHpa);

const fn way(name: &'static str, target: PerPodTarget, sizing: Sizing) -> Way {
    (name, VpaWithHpa { target, sizing })
}

const UTILIZATION: PerPodTarget = PerPodTarget::Utilization(70);
const SCALE_POINT: PerPodTarget = PerPodTarget::AverageMilli(FIRST_REQUEST * 7 / 10);
const WAYS: [Way; 7] = [
    way("VPA, HPA 50 %", PerPodTarget::Utilization(50), Sizing::Vpa),
    way("VPA, HPA 70 %", UTILIZATION, Sizing::Vpa),
    way("VPA, HPA 95 %", PerPodTarget::Utilization(95), Sizing::Vpa),
    way("plimsoll, HPA 70 %", UTILIZATION, Sizing::PriceOfFailure),
    way("Respect, HPA 70 %", UTILIZATION, Sizing::Fixed),
    way("KeepScalePoint 700m, VPA", SCALE_POINT, Sizing::Vpa),
    way(
        "KeepScalePoint 700m, plimsoll",
        SCALE_POINT,
        Sizing::PriceOfFailure,
    ),
];

pub(crate) fn print(folder: &Path, plots: Plots<'_>) -> Result<(), String> {
    let step = step();
    let results: Vec<_> = WAYS.par_iter().map(|it| it.1.run(&step, DAYS)).collect();
    println!("### Generated step: 20 cores, and 40 from the fifth day on\n");
    print_step(&results);
    let request = plot("request of a pod", "millicores", &results, Day::request);
    plots.write("vpa-with-hpa-request.svg", &request)?;
    let pods = plot("pods", "pods", &results, Day::pods);
    plots.write("vpa-with-hpa-pods.svg", &pods)?;
    let demands = read_demands(folder)?;
    let of_way = |way: &Way| {
        let demands = demands.iter();
        demands.map(|(_, it)| way.1.run(it, DAYS)).collect()
    };
    let results: Vec<Vec<Vec<Day>>> = WAYS.par_iter().map(of_way).collect();
    println!("\n### Recorded demands, {DAYS} days at most\n");
    print_sizes(&demands, &results);
    print_sums(&results);
    Ok(())
}

/// A demand of 20 pods of the first size, and of 40 from the fifth day on.
fn step() -> Demand {
    let minutes = (0..DAYS * 1440).map(|minute| if minute < 4 * 1440 { 20.0 } else { 40.0 });
    Demand {
        start: 1_767_225_600,
        minutes: minutes.map(Some).collect(),
    }
}

fn print_step(results: &[Vec<Day>]) {
    let heads = SHOWN.map(|day| format!(" day {day} |")).concat();
    println!("| request in millicores x pods |{heads} scalings | resizes |");
    println!("|{}", "---|".repeat(SHOWN.len() + 3));
    for ((name, _), days) in WAYS.iter().zip(results) {
        let cells = SHOWN.map(|day| {
            let day = &days[day - 1];
            format!(" {:.0} x {:.0} |", day.request(), day.pods())
        });
        let total = Day::total(days);
        let (scalings, resizes) = (total.scalings, total.resizes);
        println!(
            "| {name} |{} {scalings:.0} | {resizes:.0} |",
            cells.concat()
        );
    }
}

fn print_sizes(demands: &[NamedDemand], results: &[Vec<Vec<Day>>]) {
    let heads = WAYS.map(|(name, _)| format!(" {name} |")).concat();
    println!("| millicores x pods, first day; last |{heads}");
    println!("|{}", "---|".repeat(WAYS.len() + 1));
    for (index, (name, _)) in demands.iter().enumerate() {
        let cells = results.iter().map(|of_way| {
            let days = &of_way[index];
            // A day that is not complete says little.
            let last = days.iter().rev().find(|day| day.minutes >= 1440.0);
            let size = |day: &Day| format!("{:.0} x {:.0}", day.request(), day.pods());
            format!(" {}; {} |", size(&days[0]), size(last.unwrap_or(&days[0])))
        });
        println!("| {name} |{}", cells.collect::<String>());
    }
}

fn print_sums(results: &[Vec<Vec<Day>>]) {
    println!("\n| all series | requested cores | short % | scalings/day | resizes/pod and day |");
    println!("|---|---|---|---|---|");
    for ((name, _), series) in WAYS.iter().zip(results) {
        let total = Day::total(&series.concat());
        let days = total.minutes / 1440.0;
        println!(
            "| {name} | {:.1} | {:.1} | {:.0} | {:.2} |",
            total.cores(),
            100.0 * total.short_minutes / total.minutes,
            total.scalings / days,
            total.resizes / days / total.pods(),
        );
    }
}

fn plot(title: &str, unit: &'static str, results: &[Vec<Day>], number: fn(&Day) -> f64) -> String {
    let lines = WAYS.iter().zip(results).map(|((name, _), days)| {
        let points = (1..)
            .zip(days)
            .map(|(day, of)| (f64::from(day), number(of)));
        Line {
            name: (*name).to_owned(),
            points: points.collect(),
        }
    });
    svg(
        format!("VPA and HPA on CPU, step of the demand on day 5: {title}"),
        Axis::linear("day"),
        Axis::logarithmic(unit),
        lines.collect(),
    )
}
