//! The distribution of the needs to expect, and the cost of a request.

use super::histogram::{BUCKETS, GROWTH, Histogram, bound, bucket};
use super::history::History;
use super::settings::Settings;

/// Needs above the highest recent one, as factors, and their shares of the novelty weight.
const NOVELTIES: [(f64, f64); 4] = [(1.05, 0.4), (1.125, 0.3), (1.25, 0.2), (1.5, 0.1)];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Risk {
    /// Chance that the need is above it.
    pub(super) chance: f64,
    /// Mean of the need above it.
    pub(super) shortage: f64,
}

impl Risk {
    /// The cost of a request per hour: itself, the price of a failure times the failures to expect
    /// in these hours, and the price of the shortage.
    pub(super) fn cost(&self, settings: &Settings, price: f64, hours: f64, request: f64) -> f64 {
        request + (price * self.chance + settings.shortage_price * self.shortage) / hours
    }
}

/// Shares of needs by bucket, with the sum 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Needs([f64; BUCKETS]);

impl Needs {
    /// The needs to expect in the present state. `None` without history.
    pub(super) fn new(settings: &Settings, history: &History) -> Option<Self> {
        let mut all = [0.0; BUCKETS];
        for histogram in &history.needs {
            histogram.add_to(&mut all);
        }
        let mut needs = Self::with_records(settings, all, history.highest())?;
        let mut state = [0.0; BUCKETS];
        history.needs[usize::from(history.state())].add_to(&mut state);
        for (need, state) in needs.0.iter_mut().zip(state) {
            *need = state + settings.pooled * *need;
        }
        needs.normalised()
    }

    /// The needs to expect of the next run. `highest` is the highest recent need.
    pub(super) fn of_runs(settings: &Settings, runs: &Histogram, highest: f64) -> Option<Self> {
        let mut all = [0.0; BUCKETS];
        runs.add_to(&mut all);
        Self::with_records(settings, all, highest)
    }

    /// Needs with the novelty weight above the highest one.
    fn with_records(settings: &Settings, mut all: [f64; BUCKETS], highest: f64) -> Option<Self> {
        for (factor, share) in NOVELTIES {
            let bucket = bucket(Settings::FIRST_BOUND, highest * factor);
            all[bucket] += settings.novelty * share;
        }
        Self(all).normalised()
    }

    /// The same needs, given that they are at least `usage`. `None` if all are less.
    pub(super) fn at_least(mut self, usage: f64) -> Option<Self> {
        self.0[..bucket(Settings::FIRST_BOUND, usage)].fill(0.0);
        self.normalised()
    }

    /// The candidate requests, highest first, with their risks. After them comes a request of 0.
    pub(super) fn candidates(&self) -> impl Iterator<Item = (f64, Risk)> + '_ {
        let (mut above, mut load) = (0.0, 0.0);
        let used = (0..BUCKETS).rev().filter(|bucket| self.0[*bucket] > 0.0);
        used.map(Some).chain([None]).map(move |bucket| {
            let request = bucket.map_or(0.0, |bucket| bound(Settings::FIRST_BOUND, bucket));
            let risk = Risk {
                chance: above,
                shortage: f64::max(load - request * above, 0.0),
            };
            let share = bucket.map_or(0.0, |bucket| self.0[bucket]);
            above += share;
            load += share * request / GROWTH.sqrt();
            (request, risk)
        })
    }

    fn normalised(mut self) -> Option<Self> {
        let total: f64 = self.0.iter().sum();
        self.0.iter_mut().for_each(|share| *share /= total);
        (total > 0.0).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn risks_are_sums_over_all_needs(hours in prop::collection::vec(1.0_f64..5000.0, 2..80), usage in 0.0_f64..6000.0) {
            let mut history = History::default();
            for (hour, peak) in (0..).zip(&hours) {
                let at = Timestamp::from_second(hour * 3600).expect("a time");
                history.add(&Settings::MEMORY, *peak, at);
            }
            let needs = Needs::new(&Settings::MEMORY, &history).expect("needs");
            let given = needs.clone().at_least(usage);
            for needs in [Some(needs), given].into_iter().flatten() {
                let candidates: Vec<_> = needs.candidates().collect();
                prop_assert!(candidates.is_sorted_by(|a, b| a.0 > b.0));
                for (request, risk) in candidates {
                    let above = |(bucket, share): (usize, &f64)| {
                        let amount = bound(Settings::FIRST_BOUND, bucket);
                        (amount > request).then_some((*share, share * (amount / GROWTH.sqrt() - request)))
                    };
                    let above: Vec<_> = needs.0.iter().enumerate().filter_map(above).collect();
                    let chance: f64 = above.iter().map(|(share, _)| share).sum();
                    let shortage: f64 = above.iter().map(|(_, short)| short).sum();
                    prop_assert!((risk.chance - chance).abs() < 1e-9);
                    prop_assert!((risk.shortage - shortage.max(0.0)).abs() < 1e-6 * (1.0 + shortage));
                }
            }
        }
    }
}
