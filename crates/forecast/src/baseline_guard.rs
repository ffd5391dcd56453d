//! Replacement of the ensemble by a single member whose errors were clearly smaller over the last
//! week and over sixteen days, once a day of errors is known.
//!
//! Used for horizons of six hours and more, where errors become known so late that the ensemble can
//! be wrong for long. Shorter horizons correct themselves within the hour.

use crate::ewma::{Ewma, decay_factor};
use crate::grid::Grid;
use crate::members::{MEMBERS, MemberForecasts};

const WEEK_HOURS: f64 = 168.0;
const LONG_HOURS: f64 = 384.0;
/// Threshold of the squared error over the week times the error over the long time, relative to the
/// ensemble's.
const CLEARLY: f64 = 0.75;

/// Errors of each member and of the ensemble, at two decay rates.
#[derive(Clone, Debug)]
pub(crate) struct BaselineGuard {
    floor: f64,
    decay_week: f64,
    decay_long: f64,
    member_forecasts: [(Ewma, Ewma); MEMBERS],
    mix: (Ewma, Ewma),
    /// Evaluations per member, and the minimum: one day, since a few good hours are luck.
    evaluated: [usize; MEMBERS],
    enough: usize,
}

impl BaselineGuard {
    /// `every` is the number of slots between evaluations.
    pub(crate) fn new(grid: &Grid, every: usize, floor: f64) -> Self {
        let slots = |hours: f64| grid.hours(hours) / every as f64;
        Self {
            floor,
            decay_week: decay_factor(slots(WEEK_HOURS)),
            decay_long: decay_factor(slots(LONG_HOURS)),
            member_forecasts: [(Ewma::default(), Ewma::default()); MEMBERS],
            mix: (Ewma::default(), Ewma::default()),
            evaluated: [0; MEMBERS],
            enough: grid.per_day / every,
        }
    }

    pub(crate) fn evaluate(&mut self, member_forecasts: &MemberForecasts, mix: f64, actual: f64) {
        let (decay_week, decay_long) = (self.decay_week, self.decay_long);
        let add = |errors: &mut (Ewma, Ewma), estimate: f64| {
            errors.0.add(decay_week, (actual - estimate).abs());
            errors.1.add(decay_long, (actual - estimate).abs());
        };
        let known = self.member_forecasts.iter_mut().zip(&mut self.evaluated);
        for ((errors, evaluated), member) in known.zip(member_forecasts) {
            if let Some(estimate) = member {
                *evaluated = evaluated.saturating_add(1);
                add(errors, *estimate);
            }
        }
        add(&mut self.mix, mix);
    }

    fn error(&self, errors: &(Ewma, Ewma)) -> Option<f64> {
        let week = errors.0.mean()? + self.floor;
        Some(week * week * (errors.1.mean()? + self.floor))
    }

    /// Index of the member that replaces the ensemble, if any.
    pub(crate) fn replacement(&self, member_forecasts: &MemberForecasts) -> Option<usize> {
        let mix = self.error(&self.mix)?;
        let all = member_forecasts.iter().zip(&self.member_forecasts);
        let there = all.enumerate().filter(|(_, (member, _))| member.is_some());
        let enough = there.filter(|(which, _)| self.evaluated[*which] >= self.enough);
        let evaluated =
            enough.filter_map(|(which, (_, errors))| Some((which, self.error(errors)?)));
        let clear = evaluated.filter(|(_, error)| *error < CLEARLY * mix);
        let best = clear.min_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map(|(which, _)| which)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(last_error: f64, expected: Option<usize>) {
        let grid = Grid::new(300).expect("five minutes fit a day");
        let mut guard = BaselineGuard::new(&grid, 3, 1e-6);
        let member_forecasts: MemberForecasts = [
            Some(10.0 + last_error),
            Some(15.0),
            None,
            None,
            None,
            None,
            None,
        ];
        for _ in 0..96 {
            assert_eq!(
                guard.replacement(&member_forecasts),
                None,
                "not evaluated for a day"
            );
            guard.evaluate(&member_forecasts, 12.0, 10.0);
        }
        assert_eq!(
            guard.replacement(&member_forecasts),
            expected,
            "{last_error}"
        );
    }

    #[test]
    fn only_a_clearly_better_member_replaces_the_ensemble() {
        check(1.0, Some(0));
        check(1.8, Some(0));
        check(1.9, None);
        check(3.0, None);
    }
}
