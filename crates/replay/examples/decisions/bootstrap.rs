//! Bootstrap over entities: intervals of scores, and of differences at equal risk.
//!
//! Entities are drawn with replacement, the same ones for all policies, so that differences are
//! paired. A fixed seed makes the results repeatable.

use replay::{EntityScore, Score};

/// Number of samples of entities.
const ROUNDS: usize = 1000;

/// Bounds of the middle 95 % of a number over all samples of entities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    /// The 2.5th percentile.
    pub(crate) low: f64,
    /// The 97.5th percentile.
    pub(crate) high: f64,
}

/// The samples of `entities` indices, the same ones each time.
pub(crate) fn samples(entities: usize) -> Vec<Vec<usize>> {
    let mut state = 1;
    let mut draw = || (split_mix(&mut state) % entities.max(1) as u64) as usize;
    (0..ROUNDS)
        .map(|_| (0..entities).map(|_| draw()).collect())
        .collect()
}

/// The interval of a number of samples of `entities` indices.
pub(crate) fn interval(entities: usize, number: impl Fn(&[usize]) -> f64) -> Interval {
    interval_of(samples(entities).iter().map(|sample| number(sample)))
}

/// The interval of a number whose values for all samples are known.
///
/// # Panics
///
/// Without values.
pub(crate) fn interval_of(numbers: impl Iterator<Item = f64>) -> Interval {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let outside = numbers.len() / 40;
    Interval {
        low: numbers[outside],
        high: numbers[numbers.len() - 1 - outside],
    }
}

pub(crate) fn score_of(entities: &[EntityScore], sample: &[usize]) -> Score {
    Score::of(sample.iter().map(|index| &entities[*index]))
}

/// The difference of aggregate slack, ours minus the peer's, at the peer's risk. `family` has our
/// scores at several prices, of which the two around the peer's risk are interpolated over its
/// logarithm. A peer with more risk than the whole family is compared with our riskiest member.
/// `None` if the peer has less risk than the whole family.
pub(crate) fn difference_at_equal_risk(
    risk: impl Fn(&Score) -> f64,
    family: &[Score],
    peer: &Score,
) -> Option<f64> {
    let mut curve: Vec<(f64, f64)> = family
        .iter()
        .filter(|score| risk(score) > 0.0)
        .map(|score| (risk(score).ln(), score.aggregate_slack))
        .collect();
    curve.sort_by(|one, other| one.0.total_cmp(&other.0));
    let at = risk(peer).ln();
    if let Some((_, riskiest)) = curve.last().filter(|(most, _)| at > *most) {
        return Some(riskiest - peer.aggregate_slack);
    }
    let (below, above) = curve
        .windows(2)
        .map(|pair| (pair[0], pair[1]))
        .find(|(below, above)| (below.0..=above.0).contains(&at))?;
    let share = (at - below.0) / (above.0 - below.0).max(f64::MIN_POSITIVE);
    Some(below.1 + share * (above.1 - below.1) - peer.aggregate_slack)
}

/// The next number of Vigna's `SplitMix64`.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_narrows_with_the_number_of_entities() {
        let mean = |sample: &[usize]| {
            sample.iter().map(|index| (index % 2) as f64).sum::<f64>() / sample.len() as f64
        };
        let [few, many] = [40, 4000].map(|entities| interval(entities, mean));
        assert!((few.low + few.high - 1.0).abs() < 0.05, "{few:?}");
        assert!(
            many.high - many.low < 0.2 * (few.high - few.low),
            "{many:?}"
        );
        assert_eq!(interval(40, mean), few);
    }

    /// Scores of risk and slack.
    fn check(family: &[(f64, f64)], peer: (f64, f64), expected: Option<f64>) {
        let score = |(ooms, aggregate_slack): &(f64, f64)| Score {
            aggregate_slack: *aggregate_slack,
            ooms: *ooms,
            ..Score::default()
        };
        let family: Vec<Score> = family.iter().map(score).collect();
        let found = difference_at_equal_risk(|score| score.ooms, &family, &score(&peer));
        assert_eq!(
            found.map(|difference| (difference * 1e6).round()),
            expected.map(|difference| difference * 1e6)
        );
    }

    #[test]
    fn slack_is_interpolated_over_the_logarithm_of_risk() {
        let family = [(0.1, 0.7), (0.4, 0.6), (0.01, 0.9)];
        check(&family, (0.2, 0.7), Some(-0.05));
        check(&family, (0.1, 0.7), Some(0.0));
        check(&family, (0.5, 0.7), Some(-0.1));
        check(&family, (0.0, 0.7), None);
        check(&[], (0.2, 0.7), None);
    }
}
