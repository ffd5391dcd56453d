//! Plots of aggregate slack against risk: a line for each family of operating points.

use replay::{Executor, Resource, Score};

use super::policies::Result;
use super::traces::Set;
use crate::lines::{Axis, Line, svg};

/// Families of policies by the beginning of their names.
const FAMILIES: [&str; 7] = [
    "plimsoll",
    "VPA P",
    "VPA and its updater's rules",
    "Crane",
    "Autopilot window",
    "Autopilot ML",
    "KRR",
];

/// The name of the file and the plot. Policies without risk are left out.
pub(crate) fn plot(set: &Set, executor: &Executor, results: &[Result]) -> (String, String) {
    let (resource, axis, unit, risk): (_, _, _, fn(&Score) -> f64) = match set.resource {
        Resource::Cpu => (
            "cpu",
            "time with usage above the request, %",
            100.0,
            |score| score.short_time,
        ),
        Resource::Memory => ("memory", "OOM kills per machine and day", 1.0, |score| {
            score.ooms
        }),
    };
    let raises = if executor.early_raises {
        ("early", "hourly decisions and early raises")
    } else {
        ("hourly", "hourly decisions")
    };
    let lines = FAMILIES.map(|family| {
        let members = results
            .iter()
            .filter(|result| result.name.starts_with(family));
        let scores = members.map(|result| Score::of(&result.entities));
        let mut points: Vec<(f64, f64)> = scores
            .map(|score| (unit * risk(&score), score.aggregate_slack))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Line {
            name: family.trim_end_matches(" P").to_owned(),
            points,
        }
    });
    let set = set.name.rsplit('/').next().unwrap_or(set.name);
    let trace = set.split("__").next().unwrap_or(set);
    let plot = svg(
        format!("{trace}: {resource}, {}", raises.1),
        Axis::logarithmic(axis),
        Axis::linear("aggregate slack"),
        lines.into(),
    );
    (format!("{set}-{resource}-{}.svg", raises.0), plot)
}
