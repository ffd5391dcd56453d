//! Violations at equal pods, from a sweep of the target.

use replay::horizontal::Score;

use crate::bootstrap::{Interval, interval};
use crate::csv::USUAL_TARGET;

/// Relative distance from the wanted pods that is close enough.
const CLOSE: f64 = 0.002;
/// Maximum number of replays that seek the wanted pods.
const MOST_RUNS: usize = 4;

/// Scores of one method on one series at several targets.
#[derive(Clone, Debug)]
pub(crate) struct Curve(Vec<Score>);

impl Curve {
    pub(crate) fn new(mut scores: Vec<Score>) -> Self {
        scores.sort_by(|a, b| a.pods().total_cmp(&b.pods()));
        Self(scores)
    }

    /// Scores near a mean number of pods, from a few replays. `run` replays with a target.
    pub(crate) fn around(pods: f64, run: impl Fn(f64) -> Score) -> Self {
        let mut target = USUAL_TARGET;
        let mut scores = vec![run(target)];
        for _ in 0..MOST_RUNS {
            let ratio = scores.last().map_or(1.0, Score::pods) / pods;
            if (ratio - 1.0).abs() < CLOSE {
                break;
            }
            target *= ratio;
            scores.push(run(target));
        }
        Self::new(scores)
    }

    /// A number of the score at a mean number of pods, interpolated between the two nearest
    /// operating points. Beyond the sweep it is that of the nearest point.
    pub(crate) fn at(&self, pods: f64, number: impl Fn(&Score) -> f64) -> f64 {
        let after = self.0.partition_point(|score| score.pods() < pods);
        let (Some(above), Some(below)) = (self.0.get(after), after.checked_sub(1)) else {
            let end = after.min(self.0.len() - 1);
            return number(&self.0[end]);
        };
        let below = &self.0[below];
        let share = (pods - below.pods()) / (above.pods() - below.pods());
        number(below) + share * (number(above) - number(below))
    }
}

/// A statistic of pairs, one of each series, with its interval over samples of the series.
pub(crate) fn with_interval(
    pairs: &[(f64, f64)],
    statistic: fn(&[(f64, f64)]) -> f64,
) -> (f64, Interval) {
    let of_sample = |sample: &[usize]| {
        let drawn: Vec<_> = sample.iter().map(|index| pairs[*index]).collect();
        statistic(&drawn)
    };
    (statistic(pairs), interval(pairs.len(), of_sample))
}

/// The sum of the first numbers over the sum of the second ones.
pub(crate) fn ratio_of_sums(pairs: &[(f64, f64)]) -> f64 {
    let sum = |(a, b): (f64, f64), (c, d): &(f64, f64)| (a + c, b + d);
    let (first, second) = pairs.iter().fold((0.0, 0.0), sum);
    first / second
}

/// The geometric mean of the ratios. A minute is added to both numbers, so that zero is possible.
pub(crate) fn geometric_mean(pairs: &[(f64, f64)]) -> f64 {
    let logarithms = pairs.iter().map(|(a, b)| ((a + 1.0) / (b + 1.0)).ln());
    (logarithms.sum::<f64>() / pairs.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(pods: f64, violations: f64) -> Score {
        Score {
            minutes: 10.0,
            pod_minutes: 10.0 * pods,
            violations,
            ..Score::default()
        }
    }

    fn check(pods: f64, expected: f64) {
        let curve = Curve::new(vec![score(20.0, 6.0), score(10.0, 9.0), score(30.0, 2.0)]);
        let found = curve.at(pods, |score| score.violations);
        assert!((found - expected).abs() < 1e-9, "{pods}: {found}");
    }

    #[test]
    fn violations_are_interpolated_within_the_sweep() {
        for (pods, expected) in [
            (5.0, 9.0),
            (10.0, 9.0),
            (15.0, 7.5),
            (20.0, 6.0),
            (27.5, 3.0),
            (30.0, 2.0),
            (40.0, 2.0),
        ] {
            check(pods, expected);
        }
    }

    #[test]
    fn the_wanted_pods_are_found_by_the_target() {
        let run = |target: f64| score(35.0 / target, 100.0 * target);
        let violations = |score: &Score| score.violations;
        for pods in [30.0, 50.0, 70.0] {
            let found = Curve::around(pods, run).at(pods, violations);
            assert!((found - 3500.0 / pods).abs() < 0.1, "{pods}: {found}");
        }
    }

    #[test]
    fn ratios_of_sums_and_geometric_means() {
        let pairs = [(0.0, 1.0), (3.0, 7.0), (1.0, 3.0)];
        assert!((ratio_of_sums(&pairs) - 4.0 / 11.0).abs() < 1e-9);
        assert!((geometric_mean(&pairs) - 0.5).abs() < 1e-9);
        let (value, interval) = with_interval(&pairs, ratio_of_sums);
        assert!(
            interval.low <= value && value <= interval.high,
            "{interval:?}"
        );
    }
}
