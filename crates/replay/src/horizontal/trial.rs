//! Trial of a predicted metric on the recent past: it is used while it had at most the violations of
//! the native HPA with as many pods.

use std::ops::Range;

use super::demand::USUAL_TARGET;
use super::{Autoscaler, Curve, Demand};

const DAY: usize = 24 * 60;
/// Days that a trial replays.
const TRIAL: usize = 7;
/// Violation minutes that may be chance.
const CHANCE: f64 = 5.0;

/// The values of a predicted metric after a trial each day; zero while it is set aside. `autoscaler`
/// says when pods are ready and metrics readable.
pub fn tried(
    autoscaler: Autoscaler,
    demand: &Demand,
    predicted: &[Option<f64>],
) -> Vec<Option<f64>> {
    let first = predicted.iter().position(Option::is_some);
    // A replay begins with a day that is not scored.
    let first = first.unwrap_or(predicted.len()) + DAY;
    let mut values = predicted.to_vec();
    for start in (first + DAY..predicted.len()).step_by(DAY) {
        let recent = start.saturating_sub(TRIAL * DAY).max(first)..start;
        if !is_better(autoscaler, demand, predicted, recent) {
            let end = (start + DAY).min(values.len());
            values[start..end].fill(Some(0.0));
        }
    }
    values
}

/// Whether the prediction had at most the violations of the native HPA with as many pods.
fn is_better(
    autoscaler: Autoscaler,
    demand: &Demand,
    predicted: &[Option<f64>],
    recent: Range<usize>,
) -> bool {
    let run = |predicted: Option<&[Option<f64>]>, target: f64| {
        let autoscaler = Autoscaler {
            target,
            ..autoscaler
        };
        autoscaler.run(demand, predicted, recent.clone())
    };
    let hpa = run(None, USUAL_TARGET);
    let curve = Curve::around(hpa.pods(), |target| run(Some(predicted), target));
    curve.at(hpa.pods(), |score| score.violations) <= hpa.violations + CHANCE
}
