//! Tables in Markdown.

use rayon::prelude::*;
use replay::{EntityScore, Executor, Resource, Score};

use super::policies::Result;
use super::traces::Set;
use crate::bootstrap::{
    Interval, difference_at_equal_risk, interval, interval_of, samples, score_of,
};

/// A measure of risk at which slack is compared, by its name.
pub(crate) type Risk = (&'static str, fn(&Score) -> f64);

pub(crate) fn risks(resource: Resource) -> &'static [Risk] {
    match resource {
        Resource::Cpu => &[
            ("under-provisioned time", |score| score.short_time),
            ("deficit", |score| score.deficit),
        ],
        Resource::Memory => &[("OOM rate", |score| score.ooms)],
    }
}

pub(crate) fn title(set: &Set, executor: &Executor) -> String {
    let resource = match set.resource {
        Resource::Cpu => "CPU",
        Resource::Memory => "memory",
    };
    let raises = if executor.early_raises {
        " and early raises"
    } else {
        ""
    };
    format!("{}: {resource}, hourly decisions{raises}", set.name)
}

/// Prints the scores of all policies, and the differences between ours and each peer.
pub(crate) fn print(set: &Set, executor: &Executor, results: &[Result]) {
    let columns = match set.resource {
        Resource::Cpu => "under-provisioned % | deficit %",
        Resource::Memory => "OOM/day | OOM-free % | seriously hit %",
    };
    let risks = risks(set.resource);
    let compared: Vec<String> = risks
        .iter()
        .map(|(name, _)| format!(" ours - it at equal {name} |"))
        .collect();
    let header = format!(
        "| policy | aggregate slack | relative slack | {columns} | changes/day |{} the same, held-out half |",
        compared.concat()
    );
    println!("\n### {}\n", title(set, executor));
    println!("{header}");
    println!("|{}", "---|".repeat(header.matches('|').count() - 1));
    let all: Vec<usize> = (0..set.series.len()).collect();
    // Settings were chosen on the other half.
    let held_out: Vec<usize> = all.iter().copied().skip(1).step_by(2).collect();
    let entities = results.iter().map(|result| result.entities.as_slice());
    let entities: Vec<&[EntityScore]> = entities.collect();
    let (all, held_out) = (
        Sampled::new(&entities, &all),
        Sampled::new(&entities, &held_out),
    );
    let ours: Vec<usize> = (0..results.len())
        .filter(|index| results[*index].is_ours)
        .collect();
    let comparisons = risks.iter().map(|risk| (risk.1, &all));
    let comparisons: Vec<_> = comparisons.chain([(risks[0].1, &held_out)]).collect();
    for (index, result) in results.iter().enumerate() {
        let cells = comparisons.iter().map(|(risk, sampled)| {
            if result.is_ours {
                "  |".to_owned()
            } else {
                format!(" {} |", sampled.difference(*risk, &ours, index))
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
pub(crate) fn scores(resource: Resource, entities: &[EntityScore]) -> String {
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

/// The scores of every policy over a subset of the entities, and over samples of the subset.
pub(crate) struct Sampled {
    /// By sample and policy. The first sample is the subset itself.
    scores: Vec<Vec<Score>>,
}

impl Sampled {
    pub(crate) fn new(policies: &[&[EntityScore]], subset: &[usize]) -> Self {
        let whole: Vec<usize> = (0..subset.len()).collect();
        let samples: Vec<Vec<usize>> = [whole].into_iter().chain(samples(subset.len())).collect();
        let of_sample = |sample: &Vec<usize>| {
            let sample: Vec<usize> = sample.iter().map(|index| subset[*index]).collect();
            let scores = policies.iter().map(|entities| score_of(entities, &sample));
            scores.collect()
        };
        Self {
            scores: samples.par_iter().map(of_sample).collect(),
        }
    }

    /// The difference of aggregate slack at equal risk between a family of policies and a peer, with
    /// its paired interval. A star marks a peer with more risk than any of the family.
    pub(crate) fn difference(
        &self,
        risk: fn(&Score) -> f64,
        members: &[usize],
        peer: usize,
    ) -> String {
        let family = |scores: &[Score]| -> Vec<Score> {
            members.iter().map(|member| scores[*member]).collect()
        };
        let at = |scores: &[Score]| difference_at_equal_risk(risk, &family(scores), &scores[peer]);
        let Some(difference) = at(&self.scores[0]) else {
            return "less risk".to_owned();
        };
        // Samples in which the peer has less risk than the whole family say nothing.
        let of_samples = self.scores[1..].iter().filter_map(|it| at(it));
        let Interval { low, high } = interval_of(std::iter::once(difference).chain(of_samples));
        let most = family(&self.scores[0]).iter().map(risk).fold(0.0, f64::max);
        let star = if risk(&self.scores[0][peer]) > most {
            "*"
        } else {
            ""
        };
        format!("{difference:+.3} ({low:+.3} to {high:+.3}){star}")
    }
}
