//! Statistics over weighted buckets: average, percentile of load-adjusted usage, peak. Source:
//! section 3.2.2.
//!
//! In load-adjusted usage the weight of a bucket is multiplied by its usage, so that a percentile
//! refers to the share of all *work* instead of time: with a load of 1 for nine units of time and
//! of 10 for one unit, the 90th percentile of time is 1, of load 10.

/// Statistic that becomes the limit, before the margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// Weighted average, for batch work.
    Average,
    /// A percentile (fraction) of load-adjusted usage.
    LoadPercentile(f64),
    /// The peak of the last seven days.
    Peak,
    /// The larger of a percentile of load-adjusted usage and half the peak.
    LoadPercentileOrHalfPeak(f64),
}

impl Statistic {
    pub(super) fn name(self) -> String {
        match self {
            Self::Average => "average".to_owned(),
            Self::LoadPercentile(fraction) => format!("percentile {fraction} of load"),
            Self::Peak => "peak of seven days".to_owned(),
            Self::LoadPercentileOrHalfPeak(fraction) => {
                format!("percentile {fraction} of load, at least half the peak of seven days")
            }
        }
    }

    /// The statistic over pairs of bucket bound (ascending) and weight; 0 without weight. The peak
    /// is passed separately, because it does not decay.
    pub(super) fn of(self, usage: &[(f64, f64)], peak: f64) -> f64 {
        match self {
            Self::Average => average(usage),
            Self::LoadPercentile(fraction) => load_percentile(usage, fraction),
            Self::Peak => peak,
            Self::LoadPercentileOrHalfPeak(fraction) => {
                load_percentile(usage, fraction).max(0.5 * peak)
            }
        }
    }
}

fn average(usage: &[(f64, f64)]) -> f64 {
    let weight: f64 = usage.iter().map(|(_, weight)| weight).sum();
    let load: f64 = usage.iter().map(|(bound, weight)| bound * weight).sum();
    if weight > 0.0 { load / weight } else { 0.0 }
}

fn load_percentile(usage: &[(f64, f64)], fraction: f64) -> f64 {
    let load = || {
        usage
            .iter()
            .map(|(bound, weight)| (*bound, bound * weight))
            .filter(|(_, load)| *load > 0.0)
    };
    let threshold = fraction * load().map(|(_, load)| load).sum::<f64>();
    let mut sum = 0.0;
    let mut reached = 0.0;
    for (bound, load) in load() {
        sum += load;
        reached = bound;
        if sum >= threshold {
            break;
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(statistic: Statistic, usage: &[(f64, f64)], expected: f64) {
        let peak = usage.iter().map(|(bound, _)| *bound).fold(0.0, f64::max);
        let found = statistic.of(usage, peak);
        let is_near = (found - expected).abs() < 1e-12;
        assert!(is_near, "{statistic:?} of {usage:?}: {found}");
    }

    const PAPER: [(f64, f64); 2] = [(1.0, 9.0), (10.0, 1.0)];

    #[test]
    fn a_bucket_weighs_as_much_as_its_load() {
        check(Statistic::LoadPercentile(0.9), &PAPER, 10.0);
        check(Statistic::LoadPercentile(9.0 / 19.0), &PAPER, 1.0);
        check(Statistic::LoadPercentile(0.5), &PAPER, 10.0);
        check(Statistic::LoadPercentile(0.9), &[], 0.0);
        let idle = [(0.0, 5.0), (2.0, 1.0)];
        check(Statistic::LoadPercentile(0.0), &idle, 2.0);
    }

    #[test]
    fn the_average_is_weighted_and_the_peak_is_not() {
        check(Statistic::Average, &PAPER, 1.9);
        check(Statistic::Average, &[], 0.0);
        check(Statistic::Peak, &PAPER, 10.0);
        check(Statistic::LoadPercentileOrHalfPeak(0.4), &PAPER, 5.0);
        check(Statistic::LoadPercentileOrHalfPeak(0.9), &PAPER, 10.0);
    }

    proptest! {
        #[test]
        fn twice_the_usage_needs_twice_the_limit(
            weights in prop::collection::vec(0.01_f64..10.0, 1..30),
            fraction in 0.0_f64..1.0,
            power in -20..20,
        ) {
            // A power of two keeps every bit.
            let factor = f64::from(power).exp2();
            let usage: Vec<_> = weights.iter().zip(1..).map(|(weight, bound)| (f64::from(bound), *weight)).collect();
            let scaled: Vec<_> = usage.iter().map(|(bound, weight)| (bound * factor, *weight)).collect();
            let peak = usage.len() as f64;
            for statistic in [
                Statistic::Average,
                Statistic::LoadPercentile(fraction),
                Statistic::Peak,
                Statistic::LoadPercentileOrHalfPeak(fraction),
            ] {
                prop_assert_eq!(statistic.of(&scaled, peak * factor).to_bits(), (statistic.of(&usage, peak) * factor).to_bits());
            }
        }

        #[test]
        fn load_percentiles_are_bounds_that_rise_and_are_never_below_percentiles_of_time(
            weights in prop::collection::vec(0.01_f64..10.0, 1..30),
            fraction in 0.0_f64..1.0,
        ) {
            let usage: Vec<_> = weights.iter().zip(1..).map(|(weight, bound)| (f64::from(bound), *weight)).collect();
            let found = load_percentile(&usage, fraction);
            let share: f64 = usage.iter().filter(|(bound, _)| *bound <= found).map(|(_, weight)| weight).sum();
            prop_assert!(usage.iter().any(|(bound, _)| (*bound - found).abs() < 1e-9));
            prop_assert!(share >= fraction * weights.iter().sum::<f64>() - 1e-9);
            prop_assert!(load_percentile(&usage, fraction * 0.9) <= found);
        }
    }
}
