//! When a plain forecast replaces the mix: when its errors over the last week, and over sixteen
//! days, were clearly smaller, and a day of them is known.
//!
//! For forecasts six hours ahead and more, which are judged so late that the mix can be wrong for
//! long. Shorter ones mend themselves within the hour.

use crate::discounted::{Discounted, keep};
use crate::experts::{EXPERTS, Opinions};
use crate::grid::Grid;

const WEEK_HOURS: f64 = 168.0;
const LONG_HOURS: f64 = 384.0;
/// Error over the week, squared, times error over the long time, both as a share of the mix's.
const CLEARLY: f64 = 0.75;

/// Errors of each opinion and of the mix, at two speeds.
#[derive(Clone, Debug)]
pub(crate) struct DoNoHarm {
    floor: f64,
    keep_week: f64,
    keep_long: f64,
    opinions: [(Discounted, Discounted); EXPERTS],
    mix: (Discounted, Discounted),
    /// How often each opinion was judged, and how often it must have been: for a day, since a few
    /// good hours are luck.
    judged: [usize; EXPERTS],
    enough: usize,
}

impl DoNoHarm {
    /// Judged every so many slots.
    pub(crate) fn new(grid: &Grid, every: usize, floor: f64) -> Self {
        let slots = |hours: f64| grid.hours(hours) / every as f64;
        Self {
            floor,
            keep_week: keep(slots(WEEK_HOURS)),
            keep_long: keep(slots(LONG_HOURS)),
            opinions: [(Discounted::default(), Discounted::default()); EXPERTS],
            mix: (Discounted::default(), Discounted::default()),
            judged: [0; EXPERTS],
            enough: grid.per_day / every,
        }
    }

    /// Takes in what was said of a slot and what came.
    pub(crate) fn judge(&mut self, opinions: &Opinions, mix: f64, actual: f64) {
        let (keep_week, keep_long) = (self.keep_week, self.keep_long);
        let add = |errors: &mut (Discounted, Discounted), said: f64| {
            errors.0.add(keep_week, (actual - said).abs());
            errors.1.add(keep_long, (actual - said).abs());
        };
        for ((errors, judged), opinion) in
            self.opinions.iter_mut().zip(&mut self.judged).zip(opinions)
        {
            if let Some(said) = opinion {
                *judged = judged.saturating_add(1);
                add(errors, *said);
            }
        }
        add(&mut self.mix, mix);
    }

    fn error(&self, errors: &(Discounted, Discounted)) -> Option<f64> {
        let week = errors.0.mean()? + self.floor;
        Some(week * week * (errors.1.mean()? + self.floor))
    }

    /// The opinion that stands in for the mix, if any.
    pub(crate) fn replacement(&self, opinions: &Opinions) -> Option<usize> {
        let mix = self.error(&self.mix)?;
        let there = opinions
            .iter()
            .zip(&self.opinions)
            .enumerate()
            .filter(|(_, (opinion, _))| opinion.is_some());
        let enough = there.filter(|(which, _)| self.judged[*which] >= self.enough);
        let judged = enough.filter_map(|(which, (_, errors))| Some((which, self.error(errors)?)));
        let clear = judged.filter(|(_, error)| *error < CLEARLY * mix);
        clear
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(which, _)| which)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(last_error: f64, expected: Option<usize>) {
        let grid = Grid::new(300).expect("five minutes fit a day");
        let mut guard = DoNoHarm::new(&grid, 3, 1e-6);
        let opinions: Opinions = [
            Some(10.0 + last_error),
            Some(15.0),
            None,
            None,
            None,
            None,
            None,
        ];
        for _ in 0..96 {
            assert_eq!(guard.replacement(&opinions), None, "not judged for a day");
            guard.judge(&opinions, 12.0, 10.0);
        }
        assert_eq!(guard.replacement(&opinions), expected, "{last_error}");
    }

    #[test]
    fn only_what_was_clearly_better_replaces_the_mix() {
        check(1.0, Some(0));
        check(1.8, Some(0));
        check(1.9, None);
        check(3.0, None);
    }
}
