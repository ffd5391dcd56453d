//! Errors in units of their expected size, as decayed counts in bins, and their upper quantiles.
//!
//! One bin for scores within 0.01 of zero, then 119 on each side, each a tenth wider than the one
//! before. Instead of decaying all bins, each new score weighs more than the one before; before the
//! weights grow too large, all are divided.

use std::cmp::Ordering;

/// Bins on either side of the middle one.
const SIDE: usize = 119;
const BINS: usize = 2 * SIDE + 1;
const FIRST: f64 = 0.01;
const LN_RATIO: f64 = 0.095_310_179_804_324_87;
/// Number of recent scores needed for a quantile.
const ENOUGH: f64 = 10.0;
const TOO_HEAVY: f32 = 1e18;
/// Scores between two computations of the quantiles; a few scores change little.
const REFRESH: u32 = 4;

#[derive(Clone, Debug)]
pub(crate) struct ScoreHistogram<const Q: usize> {
    bins: Vec<f32>,
    total: f32,
    newest: f32,
    growth: f32,
    top: usize,
    since: u32,
    found: Option<[f64; Q]>,
}

impl<const Q: usize> ScoreHistogram<Q> {
    /// Heap memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.bins)
    }

    pub(crate) fn new(half_life: f64) -> Self {
        Self {
            bins: vec![0.0; BINS],
            total: 0.0,
            newest: 1.0,
            growth: (1.0 / half_life).exp2() as f32,
            top: 0,
            since: 0,
            found: None,
        }
    }

    /// Adds a score. Quantiles are computed for these rising shares.
    pub(crate) fn add(&mut self, score: f64, shares: &[f64; Q]) {
        let bin = bin_of(score);
        self.newest *= self.growth;
        self.bins[bin] += self.newest;
        self.total += self.newest;
        self.top = self.top.max(bin);
        if self.newest > TOO_HEAVY {
            let scale = 1.0 / self.newest;
            for bin in &mut self.bins {
                *bin *= scale;
            }
            self.newest = 1.0;
            self.total = self.bins.iter().sum();
        }
        self.since += 1;
        if self.found.is_none() || self.since >= REFRESH {
            self.since = 0;
            self.found = self.find(shares);
        }
    }

    /// The scores exceeded by the share `1 - q` of all, or `None` while too few are known.
    pub(crate) fn quantiles(&self) -> Option<[f64; Q]> {
        self.found
    }

    /// Assumes one unseen score above all others. If it alone exceeds the share, the result is the
    /// bin of the largest score.
    fn find(&self, shares: &[f64; Q]) -> Option<[f64; Q]> {
        let (total, newest) = (f64::from(self.total), f64::from(self.newest));
        if total < ENOUGH * newest {
            return None;
        }
        let mut quantiles = [0.0; Q];
        let mut above = 0.0;
        let mut bin = self.top;
        // The highest share first: its tail is the shortest.
        for (quantile, share) in quantiles.iter_mut().zip(shares).rev() {
            let tail = (1.0 - share) * (total + newest) - newest;
            if tail <= 0.0 {
                *quantile = upper_edge(self.top, 0.0);
                continue;
            }
            while bin > 0 && above + f64::from(self.bins[bin]) < tail {
                above += f64::from(self.bins[bin]);
                bin -= 1;
            }
            let inside = (tail - above) / f64::from(self.bins[bin]);
            *quantile = upper_edge(bin, inside.clamp(0.0, 1.0));
        }
        Some(quantiles)
    }
}

fn bin_of(score: f64) -> usize {
    let size = score.abs();
    if size <= FIRST {
        return SIDE;
    }
    let step = whole_above(((size / FIRST).ln() / LN_RATIO).clamp(1.0, SIDE as f64));
    if score > 0.0 {
        SIDE + step
    } else {
        SIDE - step
    }
}

/// Ceiling of a small positive number. The library's version is a function call unless the target
/// has the instruction.
pub(crate) fn whole_above(value: f64) -> usize {
    let below = value as u32;
    (below + u32::from(f64::from(below) < value)) as usize
}

/// The value at a share `down` from the upper edge of a bin: linear in the middle bin, logarithmic
/// elsewhere.
fn upper_edge(bin: usize, down: f64) -> f64 {
    let step = bin as f64 - SIDE as f64;
    match bin.cmp(&SIDE) {
        Ordering::Equal => FIRST * (1.0 - 2.0 * down),
        Ordering::Greater => FIRST * (LN_RATIO * (step - down)).exp(),
        Ordering::Less => -FIRST * (LN_RATIO * (-step - 1.0 + down)).exp(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scores: &[f64], share: f64, expected: Option<f64>) {
        let mut histogram = ScoreHistogram::new(1e9);
        for score in scores {
            histogram.add(*score, &[share]);
        }
        let found = histogram.quantiles().map(|[quantile]| quantile);
        let close = match (found, expected) {
            (Some(found), Some(expected)) => {
                (found - expected).abs() <= 0.05 * expected.abs().max(0.01)
            }
            (found, expected) => found == expected,
        };
        assert!(close, "{share} of {scores:?}: {found:?} for {expected:?}");
    }

    #[test]
    fn a_quantile_lies_where_its_share_of_the_scores_is_above() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        check(&hundred, 0.9, Some(91.0));
        check(&hundred, 0.5, Some(51.0));
        let falling: Vec<f64> = hundred.iter().map(|score| -score).collect();
        check(&falling, 0.9, Some(-9.6));
        check(&[0.0; 20], 0.5, Some(0.0005));
    }

    #[test]
    fn few_scores_say_nothing_or_little() {
        check(&[1.0; 9], 0.9, None);
        check(&[1.0; 10], 0.95, Some(1.05));
    }
}
