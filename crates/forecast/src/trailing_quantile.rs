//! Naive forecast plus a quantile of its own errors. The naive forecast is yesterday's value, last
//! week's value, or zero; its errors are those of the last week or fortnight.
//!
//! `rank = q (n + 3)` of `n` excesses in ascending order, at most the largest. Three unseen larger
//! excesses are assumed, since those of one day are correlated, and a week has only seven days.

use std::collections::VecDeque;

use crate::score_histogram::whole_above;
use crate::seasons::{Seasons, SlotPosition};

/// Number of unseen larger excesses assumed.
const ABOVE: f64 = 3.0;

/// The newest excesses over one naive forecast.
#[derive(Clone, Debug)]
pub(crate) struct TrailingQuantile {
    days: Option<usize>,
    enough: usize,
    most: usize,
    newest: VecDeque<f32>,
    sorted: Vec<f32>,
}

impl TrailingQuantile {
    /// Naive forecast is the value `days` before, or zero for `None`. Keeps at most `most` excesses
    /// and needs `enough` of them.
    pub(crate) fn new(days: Option<usize>, enough: usize, most: usize) -> Self {
        Self {
            days,
            enough,
            most,
            newest: VecDeque::with_capacity(most),
            sorted: Vec::with_capacity(most),
        }
    }

    /// Heap memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<f32>() * (self.newest.capacity() + self.sorted.capacity())
    }

    pub(crate) fn evaluate(&mut self, seasons: &Seasons, position: SlotPosition, actual: f64) {
        if let Some(naive) = self.naive(seasons, position) {
            self.add(actual - naive);
        }
    }

    /// Values not exceeded with each probability, for a slot at most a day ahead; `None` while too
    /// few excesses are known.
    pub(crate) fn quantiles<const Q: usize>(
        &self,
        seasons: &Seasons,
        position: SlotPosition,
        shares: &[f64; Q],
    ) -> Option<[f64; Q]> {
        if self.sorted.len() < self.enough {
            return None;
        }
        let naive = self.naive(seasons, position)?;
        Some(shares.map(|share| naive + self.excess(share)))
    }

    fn naive(&self, seasons: &Seasons, position: SlotPosition) -> Option<f64> {
        self.days
            .map_or(Some(0.0), |days| seasons.days_before(position, days))
    }

    fn add(&mut self, excess: f64) {
        if self.newest.len() >= self.most
            && let Some(oldest) = self.newest.pop_front()
        {
            // Always found: both lists hold the same excesses.
            self.sorted.remove(self.less_than(oldest));
        }
        let excess = excess as f32;
        self.newest.push_back(excess);
        self.sorted.insert(self.less_than(excess), excess);
    }

    fn less_than(&self, excess: f32) -> usize {
        let is_less = |other: &f32| other.total_cmp(&excess).is_lt();
        self.sorted.partition_point(is_less)
    }

    /// The excess not exceeded with that probability; zero before the first.
    fn excess(&self, share: f64) -> f64 {
        let seen = self.sorted.len();
        let rank = whole_above(share * (seen as f64 + ABOVE));
        let position = rank.min(seen).checked_sub(1);
        let excess = position.and_then(|position| self.sorted.get(position));
        excess.map_or(0.0, |excess| f64::from(*excess))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Three days of two slots each. The next slot is the first of the fourth day.
    fn seasons() -> Seasons {
        let mut seasons = Seasons::new(2);
        for value in [10.0_f64, 20.0, 30.0, 40.0, 50.0, 60.0] {
            seasons.store(value, value.asinh());
        }
        seasons
    }

    fn check(days: Option<usize>, excesses: &[f64], share: f64, expected: Option<f64>) {
        let seasons = seasons();
        let mut trailing = TrailingQuantile::new(days, 10, 97);
        for excess in excesses {
            let naive = trailing.naive(&seasons, seasons.next()).unwrap_or_default();
            trailing.evaluate(&seasons, seasons.next(), naive + excess);
        }
        let found = trailing
            .quantiles(&seasons, seasons.next(), &[share])
            .map(|[quantile]| quantile);
        assert_eq!(found, expected, "{share} of {excesses:?} over {days:?}");
    }

    #[test]
    fn a_quantile_is_the_plain_forecast_and_one_of_its_newest_excesses() {
        let rising: Vec<f64> = (1..=1000).map(f64::from).collect();
        check(None, &rising, 0.5, Some(953.0));
        check(None, &rising, 0.9, Some(993.0));
        check(None, &rising, 0.95, Some(998.0));
        check(None, &rising, 0.99, Some(1000.0));
        check(Some(1), &rising, 0.9, Some(1043.0));
        check(Some(3), &rising, 0.9, Some(1003.0));
        check(
            None,
            &rising.iter().map(|excess| -excess).collect::<Vec<_>>(),
            0.9,
            Some(-911.0),
        );
        check(Some(1), &[-0.0, 0.0].repeat(200), 0.95, Some(50.0));
    }

    #[test]
    fn few_excesses_say_nothing_or_the_largest() {
        check(None, &[1.0; 9], 0.9, None);
        check(
            Some(1),
            &(1..=10).map(f64::from).collect::<Vec<_>>(),
            0.9,
            Some(60.0),
        );
        check(Some(7), &[1.0; 20], 0.9, None);
    }

    proptest! {
        #[test]
        fn the_sorted_list_matches_sorting_the_newest_excesses(
            excesses in prop::collection::vec(-1e12..1e12_f64, 0..300),
            most in 1..60_usize,
        ) {
            let mut trailing = TrailingQuantile::new(None, 1, most);
            for excess in &excesses {
                trailing.add(*excess);
            }
            let mut newest: Vec<f32> = excesses.iter().rev().take(most).map(|excess| *excess as f32).collect();
            newest.sort_unstable_by(f32::total_cmp);
            prop_assert_eq!(&trailing.sorted, &newest);
            let quantiles = [0.5, 0.9, 0.99, 1.0].map(|share| trailing.excess(share));
            prop_assert!(quantiles.is_sorted());
            prop_assert_eq!(Some(quantiles[3] as f32), newest.last().copied().or(Some(0.0)));
        }
    }
}
