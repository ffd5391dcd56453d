//! Which value will not be exceeded nine times of ten, nineteen of twenty, ninety-nine of a
//! hundred.
//!
//! Four recipes add a quantile of past errors, measured against four expected sizes of an error; a
//! fifth takes the largest values around that time of the last seven days. They are mixed by their
//! own losses, and one correction per quantile follows the observed share of misses.
//!
//! A long way ahead the mix of forecasts changes faster than its errors come to be known, so three
//! of the four recipes are plain forecasts with a quantile of their own errors, and from half a day
//! on the fourth is left out. The shares at which errors are read follow that of misses.

use crate::adaptive_level::AdaptiveLevel;
use crate::error_size::{ErrorSize, SIZES};
use crate::grid::Grid;
use crate::score_histogram::{ScoreHistogram, whole_above};
use crate::seasons::{LARGEST, Place, Seasons};
use crate::trailing_quantile::TrailingQuantile;
use crate::trust::{Speed, Trust};

/// The shares.
pub(crate) const SHARES: [f64; 3] = [0.90, 0.95, 0.99];
const RECIPES: usize = SIZES + 1;
const SCORE_HALF_LIFE_DAYS: f64 = 7.0;
/// Errors of plain forecasts are those of a week, values as such those of a fortnight.
const ERROR_DAYS: f64 = 7.0;
const VALUE_DAYS: f64 = 14.0;
/// From so far ahead on the forecast's own errors are not read.
const FAR_HOURS: f64 = 12.0;
const CORRECTION: f64 = 0.15;
/// How sharply recipes are told apart by their losses: less where there are few days to tell by. A
/// long way ahead, that of the highest quantile follows from so few misses that the least loss is
/// mostly luck.
const SHARPNESS: [u32; SHARES.len()] = [4, 4, 4];
const LONG_SHARPNESS: [u32; SHARES.len()] = [2, 2, 1];
/// Values around the wanted time of day: seven days, five places each; at least so many.
const PLACES: isize = 5;
const FEWEST: usize = 5;

/// What was said of one slot, to be judged when it comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    sizes: [f32; SIZES],
    recipes: [[f32; RECIPES]; SHARES.len()],
    quantiles: [f32; SHARES.len()],
    has_sizes: bool,
    has_errors: [bool; SIZES],
    has_past: bool,
}

/// Past errors that a recipe reads.
#[derive(Clone, Debug)]
enum Errors {
    /// Those of the forecast, in units of the recipe's size.
    Scores(ScoreHistogram<{ SHARES.len() }>),
    /// Those of a plain forecast.
    Plain(TrailingQuantile),
    /// None: the recipe is left out.
    Unread,
}

/// Quantiles of one horizon.
#[derive(Clone, Debug)]
pub(crate) struct Quantiles {
    places: [isize; PLACES as usize],
    step: f64,
    size: ErrorSize,
    errors: [Errors; SIZES],
    trust: [Trust<RECIPES, 2>; SHARES.len()],
    corrections: [f64; SHARES.len()],
    /// Only a long way ahead.
    level: Option<AdaptiveLevel<{ SHARES.len() }>>,
    /// The shares at which past errors are read: those named, or what their level makes of them.
    shares: [f64; SHARES.len()],
}

impl Quantiles {
    /// For a forecast so many slots ahead, judged every so many slots.
    pub(crate) fn new(grid: &Grid, slots: usize, every: usize, floor: f64) -> Self {
        let (ahead, every) = (slots as f64, every as f64);
        let short = Speed {
            half_life: grid.hours(6.0).max(2.0 * ahead) / every,
            exponent: 1,
        };
        let long = Speed {
            half_life: grid.days(8.0).max(16.0 * ahead) / every,
            exponent: 2,
        };
        let is_long = grid.is_long(slots);
        let sharpness = if is_long { LONG_SHARPNESS } else { SHARPNESS };
        let wide = (grid.per_hour / 2).max(2) as isize;
        Self {
            places: [-wide, (-wide).div_euclid(2), 0, wide.div_euclid(2), wide],
            step: CORRECTION * (grid.hours(1.0) / ahead).powf(1.5).min(1.0),
            size: ErrorSize::new(grid, ahead, every, floor),
            errors: errors(grid, slots, every),
            trust: std::array::from_fn(|which| Trust::new([short, long], sharpness[which], floor)),
            corrections: [0.0; SHARES.len()],
            level: is_long.then(|| AdaptiveLevel::new(SHARES, ahead / every)),
            shares: SHARES,
        }
    }

    /// Memory behind it.
    pub(crate) fn bytes(&self) -> usize {
        self.size.bytes() + self.errors.iter().map(Errors::bytes).sum::<usize>()
    }

    /// Judges what was said of a slot that comes now, whose forecast was wrong by `error`.
    pub(crate) fn judge(
        &mut self,
        said: &Said,
        seasons: &Seasons,
        place: Place,
        actual: f64,
        error: f64,
    ) {
        for (errors, size) in self.errors.iter_mut().zip(said.sizes) {
            match errors {
                Errors::Scores(scores) if said.has_sizes => {
                    scores.add(error / f64::from(size), &self.shares)
                }
                Errors::Plain(trailing) => trailing.judge(seasons, place, actual),
                Errors::Scores(_) | Errors::Unread => {}
            }
        }
        let is_there = said.is_there();
        for (which, share) in SHARES.into_iter().enumerate() {
            let losses = said.recipes[which].map(|value| pinball(actual - f64::from(value), share));
            self.trust[which].add(losses, is_there);
            if is_there.contains(&true) {
                let missed = f64::from(u8::from(actual > f64::from(said.quantiles[which])));
                self.corrections[which] += self.step * (missed - (1.0 - share));
            }
        }
        if let (Some(level), Some(quantiles)) = (&mut self.level, said.quantiles()) {
            self.shares = level.judge(quantiles.map(|quantile| actual > quantile));
        }
        self.size.add(place.time, error);
    }

    /// What to say of a slot with this forecast. `range` is the largest value seen, and how far all
    /// lie apart.
    pub(crate) fn say(
        &self,
        seasons: &Seasons,
        target: Place,
        forecast: f64,
        range: (f64, f64),
    ) -> Said {
        let mut said = Said::default();
        let Some(sizes) = self.size.sizes(target.time) else {
            return said;
        };
        said.has_sizes = true;
        said.sizes = sizes.map(|size| size as f32);
        for (recipe, (size, errors)) in sizes.into_iter().zip(&self.errors).enumerate() {
            let quantiles = match errors {
                Errors::Scores(scores) => scores
                    .quantiles()
                    .map(|scores| scores.map(|score| forecast + size * score)),
                Errors::Plain(trailing) => trailing.quantiles(seasons, target, &self.shares),
                Errors::Unread => None,
            };
            let Some(quantiles) = quantiles else { continue };
            said.has_errors[recipe] = true;
            for (values, quantile) in said.recipes.iter_mut().zip(quantiles) {
                values[recipe] = quantile as f32;
            }
        }
        if let Some(past) = self.past(seasons, target) {
            said.has_past = true;
            for (values, value) in said.recipes.iter_mut().zip(past) {
                values[SIZES] = value as f32;
            }
        }
        self.mix(&mut said, forecast, range);
        said
    }

    fn mix(&self, said: &mut Said, forecast: f64, (largest, range): (f64, f64)) {
        let is_there = said.is_there();
        if !is_there.contains(&true) {
            return;
        }
        let usual = self.size.day().unwrap_or_default();
        let mut before = forecast;
        for (which, trust) in self.trust.iter().enumerate() {
            let even = is_there.map(|is_there| f64::from(u8::from(is_there)));
            let weights = trust
                .weights(is_there)
                .unwrap_or_else(|| crate::trust::normalised(even));
            let mixed: f64 = said.recipes[which]
                .iter()
                .zip(weights)
                .map(|(value, weight)| f64::from(*value) * weight)
                .sum();
            let quantile = (mixed + self.corrections[which] * usual)
                .max(before)
                .max(forecast);
            before = quantile.min(before.max(largest + range));
            said.quantiles[which] = before as f32;
        }
    }

    /// Large values around the time of day of a slot, in the last seven days.
    fn past(&self, seasons: &Seasons, target: Place) -> Option<[f64; SHARES.len()]> {
        let mut largest = [f32::NEG_INFINITY; LARGEST];
        let mut count = 0;
        for place in self.places {
            let Some(slot) = seasons.shifted(target, place) else {
                continue;
            };
            count += days_into(seasons, slot, &mut largest);
        }
        (count >= FEWEST).then(|| {
            self.shares.map(|share| {
                let rank = whole_above(share * (count + 1) as f64).min(count);
                f64::from(
                    largest
                        .get(count - rank)
                        .copied()
                        .unwrap_or(largest[LARGEST - 1]),
                )
            })
        })
    }
}

/// For a forecast so many slots ahead, judged every so many: four times its own errors, or a long
/// way ahead those of what was yesterday, of what was last week and of nothing at all, and, nearer
/// than half a day, its own by time of day.
fn errors(grid: &Grid, slots: usize, every: f64) -> [Errors; SIZES] {
    let scores = || Errors::Scores(ScoreHistogram::new(grid.days(SCORE_HALF_LIFE_DAYS) / every));
    if !grid.is_long(slots) {
        return std::array::from_fn(|_| scores());
    }
    let judged = |days: f64| (grid.days(days) / every) as usize;
    let plain = |back, days| Errors::Plain(TrailingQuantile::new(back, judged(1.0), judged(days)));
    let own = if (slots as f64) < grid.hours(FAR_HOURS) {
        scores()
    } else {
        Errors::Unread
    };
    // The third size is that at the time of day.
    [
        plain(Some(1), ERROR_DAYS),
        plain(Some(7), ERROR_DAYS),
        own,
        plain(None, VALUE_DAYS),
    ]
}

impl Errors {
    fn bytes(&self) -> usize {
        match self {
            Self::Scores(scores) => scores.bytes(),
            Self::Plain(trailing) => trailing.bytes(),
            Self::Unread => 0,
        }
    }
}

/// Merges a time of day of the seven days before a slot into the largest; how many days there were.
fn days_into(seasons: &Seasons, slot: Place, largest: &mut [f32; LARGEST]) -> usize {
    // A profile holds for a slot that is at most a day ahead. Yesterday of a later one has not been
    // yet.
    if seasons.days_before(slot, 1).is_some() {
        let profile = seasons.profile(slot);
        *largest = merged(*largest, profile.largest);
        return profile.days as usize;
    }
    let values = (2..=7).filter_map(|days| seasons.days_before(slot, days));
    values.map(|value| insert(value as f32, largest)).count()
}

/// Puts a value where it belongs among falling ones.
fn insert(mut value: f32, largest: &mut [f32; LARGEST]) {
    for place in largest {
        if value > *place {
            std::mem::swap(place, &mut value);
        }
    }
}

/// The largest values of two falling lists, falling.
fn merged(a: [f32; LARGEST], b: [f32; LARGEST]) -> [f32; LARGEST] {
    let sorted = |a: f32, b: f32| if a > b { (a, b) } else { (b, a) };
    // One list from its end beside the other: the larger of each pair are the largest of all. They
    // first rise and then fall, or the other way round, and sorting halves and then quarters puts
    // such in order.
    let [first, second, third, fourth] =
        std::array::from_fn(|place| sorted(a[place], b[LARGEST - 1 - place]).0);
    let ((first, third), (second, fourth)) = (sorted(first, third), sorted(second, fourth));
    let ((first, second), (third, fourth)) = (sorted(first, second), sorted(third, fourth));
    [first, second, third, fourth]
}

/// What a quantile costs: the share times what it was too low by, or the rest of it times what it
/// was too high by.
fn pinball(above: f64, share: f64) -> f64 {
    (share * above).max((share - 1.0) * above)
}

impl Said {
    fn is_there(&self) -> [bool; RECIPES] {
        let [first, second, third, fourth] = self.has_errors;
        [first, second, third, fourth, self.has_past]
    }

    /// The quantiles, where anything could be said.
    pub(crate) fn quantiles(&self) -> Option<[f64; SHARES.len()]> {
        self.is_there()
            .contains(&true)
            .then(|| self.quantiles.map(f64::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: [f32; 8], expected: [f32; LARGEST]) {
        let of = |values: &[f32]| {
            let mut largest = [f32::NEG_INFINITY; LARGEST];
            for value in values {
                insert(*value, &mut largest);
            }
            largest
        };
        for middle in 0..=values.len() {
            let (a, b) = values.split_at(middle);
            assert_eq!(
                merged(of(a), of(b)).map(f32::to_bits),
                expected.map(f32::to_bits),
                "{a:?} and {b:?}"
            );
        }
    }

    #[test]
    fn the_largest_of_two_lists_are_those_of_all() {
        check(
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
            [8.0, 7.0, 6.0, 5.0],
        );
        check(
            [8.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0],
            [8.0, 7.0, 6.0, 5.0],
        );
        check(
            [-1.0, 4.0, 4.0, -9.0, 2.0, 4.0, -3.0, 0.0],
            [4.0, 4.0, 4.0, 2.0],
        );
    }
}
