//! Tables in Markdown.

use replay::bootstrap::{Interval, difference_at_equal_risk, interval, score_of};
use replay::{EntityScore, Executor, Resource, Score};

use crate::policies::Result;
use crate::traces::Set;

/// A measure of risk at which slack is compared, by its name.
type Risk = (&'static str, fn(&Score) -> f64);

/// Prints the scores of all policies, and the differences between ours and each peer.
pub(crate) fn print(set: &Set, executor: &Executor, results: &[Result]) {
    let resource = match set.resource {
        Resource::Cpu => "CPU",
        Resource::Memory => "memory",
    };
    let raises = if executor.early_raises {
        " and early raises"
    } else {
        ""
    };
    let (columns, risks): (&str, &[Risk]) = match set.resource {
        Resource::Cpu => (
            "under-provisioned % | deficit %",
            &[
                ("under-provisioned time", |score| score.short_time),
                ("deficit", |score| score.deficit),
            ],
        ),
        Resource::Memory => (
            "OOM/day | OOM-free % | seriously hit %",
            &[("OOM rate", |score| score.ooms)],
        ),
    };
    let compared: Vec<String> = risks
        .iter()
        .map(|(name, _)| format!(" ours - it at equal {name} |"))
        .collect();
    let header = format!(
        "| policy | aggregate slack | relative slack | {columns} | changes/day |{} the same, held-out half |",
        compared.concat()
    );
    println!("\n### {}: {resource}, hourly decisions{raises}\n", set.name);
    println!("{header}");
    println!("|{}", "---|".repeat(header.matches('|').count() - 1));
    let family: Vec<&Result> = results.iter().filter(|result| result.is_ours).collect();
    let all: Vec<usize> = (0..set.series.len()).collect();
    // Settings were chosen on the other half.
    let held_out: Vec<usize> = all.iter().copied().skip(1).step_by(2).collect();
    let subsets = risks.iter().map(|risk| (risk, &all));
    let comparisons: Vec<_> = subsets.chain([(&risks[0], &held_out)]).collect();
    for result in results {
        let cells = comparisons.iter().map(|((_, risk), subset)| {
            if result.is_ours {
                "  |".to_owned()
            } else {
                format!(" {} |", difference(*risk, &family, result, subset))
            }
        });
        println!(
            "| {} | {}{}",
            result.name,
            scores(set.resource, &result.entities),
            cells.collect::<Vec<_>>().concat()
        );
    }
}

/// The cells of one policy's scores.
fn scores(resource: Resource, entities: &[EntityScore]) -> String {
    let score = Score::of(entities);
    let Interval { low, high } = interval(entities.len(), |sample| {
        score_of(entities, sample).aggregate_slack
    });
    let risks = match resource {
        Resource::Cpu => format!(
            "{:.2} | {:.3}",
            100.0 * score.short_time,
            100.0 * score.deficit
        ),
        Resource::Memory => format!(
            "{:.3} | {:.1} | {:.2}",
            score.ooms,
            100.0 * score.oom_free,
            100.0 * score.seriously_hit
        ),
    };
    format!(
        "{:.3} ({low:.3} to {high:.3}) | {:.3} | {risks} | {:.2} |",
        score.aggregate_slack, score.relative_slack, score.changes
    )
}

/// The difference of aggregate slack at equal risk over a subset of the entities, with its paired
/// interval.
fn difference(
    risk: fn(&Score) -> f64,
    family: &[&Result],
    peer: &Result,
    subset: &[usize],
) -> String {
    let at = |sample: &[usize]| {
        let sample: Vec<usize> = sample.iter().map(|index| subset[*index]).collect();
        let ours: Vec<Score> = family
            .iter()
            .map(|ours| score_of(&ours.entities, &sample))
            .collect();
        difference_at_equal_risk(risk, &ours, &score_of(&peer.entities, &sample))
    };
    let all: Vec<usize> = (0..subset.len()).collect();
    let Some(difference) = at(&all) else {
        return "outside".to_owned();
    };
    let Interval { low, high } = interval(all.len(), |sample| at(sample).unwrap_or(difference));
    format!("{difference:+.3} ({low:+.3} to {high:+.3})")
}
