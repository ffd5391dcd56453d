//! Tables of requests by hour in Markdown.

use replay::{EntityScore, Resource};

use crate::sizes::table::{Sampled, risks, scores};

/// Scores of one policy.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) entities: Vec<EntityScore>,
    /// Requests of each entity at the begin of each scored hour.
    pub(super) requests: Vec<Vec<f32>>,
    pub(super) is_flat: bool,
    /// Factor of the price of a change.
    pub(super) change: f64,
    pub(super) is_printed: bool,
}

/// Prints the scores over these entities. A difference at equal risk is the slack of the flat sizes
/// minus that of the policy: those of production, and those with the policy's price of a change. The
/// peak is that of the sum of all requests, as a share of that of flat x1.
pub(super) fn print(title: &str, resource: Resource, rows: &[Row], entities: &[usize]) {
    let risk_columns = match resource {
        Resource::Cpu => "under-provisioned % | deficit %",
        Resource::Memory => "OOM/day | OOM-free % | seriously hit %",
    };
    let compared = risks(resource).iter().map(|(name, _)| {
        format!(
            " flat - it at equal {name} | the same, held-out half | flat with its price of a change - it |"
        )
    });
    let compared: String = compared.collect();
    let columns = format!("aggregate slack | relative slack | {risk_columns} | changes/day | peak");
    let header = format!("| policy | {columns} |{compared}");
    println!("\n### {title}\n\n{header}");
    println!("|{}", "---|".repeat(header.matches('|').count() - 1));
    // Settings were chosen on the other half.
    let held_out = entities.iter().copied().filter(|entity| entity % 2 == 1);
    let held_out: Vec<usize> = held_out.collect();
    let policies = rows.iter().map(|row| row.entities.as_slice());
    let policies: Vec<&[EntityScore]> = policies.collect();
    let whole = Sampled::new(&policies, entities);
    let held_out = (!held_out.is_empty()).then(|| Sampled::new(&policies, &held_out));
    let flat = family(rows, 1.0);
    let usual = rows.iter().find(|row| row.name == "flat x1");
    let usual = usual.map_or(f64::NAN, |row| peak(row, entities));
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| row.is_printed) {
        let of_row = entities.iter().map(|entity| row.entities[*entity].clone());
        let of_row: Vec<EntityScore> = of_row.collect();
        let cells = risks(resource).iter().map(|(_, risk)| {
            if flat.contains(&index) {
                return "  |  |  |".to_owned();
            }
            let as_cheap = family(rows, row.change);
            let is_compared = as_cheap.len() > 2 && as_cheap != flat && !row.is_flat;
            format!(
                " {} | {} | {} |",
                whole.difference(*risk, &flat, index),
                held_out.as_ref().map_or_else(String::new, |sampled| {
                    sampled.difference(*risk, &flat, index)
                }),
                if is_compared {
                    whole.difference(*risk, &as_cheap, index)
                } else {
                    String::new()
                },
            )
        });
        let cells: String = cells.collect();
        let peak = peak(row, entities) / usual;
        let scores = scores(resource, &of_row);
        println!("| {} | {scores} {peak:.2} |{cells}", row.name);
    }
}

/// The largest sum of the requests of some entities at the begin of an hour.
fn peak(row: &Row, entities: &[usize]) -> f64 {
    let of = |entity: &usize| row.requests[*entity].as_slice();
    let hours = entities.iter().map(|it| of(it).len()).min().unwrap_or(0);
    let sum = |hour: usize| -> f64 {
        let requests = entities.iter().map(|entity| f64::from(of(entity)[hour]));
        requests.sum()
    };
    (0..hours).map(sum).fold(0.0, f64::max)
}

/// The flat sizes with a price of a change.
fn family(rows: &[Row], change: f64) -> Vec<usize> {
    let is_member = |row: &Row| row.is_flat && row.change.to_bits() == change.to_bits();
    (0..rows.len())
        .filter(|index| is_member(&rows[*index]))
        .collect()
}
