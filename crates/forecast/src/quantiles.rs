//! Upper quantiles (90 %, 95 %, 99 %) around a forecast.
//!
//! Four recipes add a quantile of past errors, relative to four expected error sizes. A fifth takes
//! the largest values around that time of the last seven days. They are weighted by their own
//! losses, and one correction per quantile follows the observed share of misses.
//!
//! At long horizons the ensemble changes faster than its errors become known. There three of the
//! four recipes are naive forecasts with a quantile of their own errors, from half a day on the
//! fourth is left out, and the shares at which errors are read follow the share of misses.

use crate::adaptive_level::AdaptiveLevel;
use crate::ensemble_weights::{Decay, EnsembleWeights};
use crate::error_scale::{ErrorSize, SIZES};
use crate::grid::Grid;
use crate::score_histogram::{ScoreHistogram, whole_above};
use crate::seasons::{LARGEST, Seasons, SlotPosition};
use crate::trailing_quantile::TrailingQuantile;

pub(crate) const SHARES: [f64; 3] = [0.90, 0.95, 0.99];
const RECIPES: usize = SIZES + 1;
const SCORE_HALF_LIFE_DAYS: f64 = 7.0;
/// Days of errors of naive forecasts. For values as such [`VALUE_DAYS`] are used.
const ERROR_DAYS: f64 = 7.0;
const VALUE_DAYS: f64 = 14.0;
/// Horizon in hours from which the forecast's own errors are not used.
const FAR_HOURS: f64 = 12.0;
const CORRECTION: f64 = 0.15;
/// Exponent of the recipe weights, lower where few days are known. At long horizons the highest
/// quantile follows from so few misses that the smallest loss is mostly luck.
const SHARPNESS: [u32; SHARES.len()] = [4, 4, 4];
const LONG_SHARPNESS: [u32; SHARES.len()] = [2, 2, 1];
/// Slots read around the wanted time of day on each of seven days. At least [`FEWEST`] values are
/// needed.
const OFFSETS: isize = 5;
const FEWEST: usize = 5;

/// Quantiles of one slot, kept until they are evaluated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QuantileEstimate {
    sizes: [f32; SIZES],
    recipes: [[f32; RECIPES]; SHARES.len()],
    quantiles: [f32; SHARES.len()],
    has_sizes: bool,
    has_errors: [bool; SIZES],
    has_past: bool,
}

/// Past errors that a recipe reads.
#[derive(Clone, Debug)]
enum ErrorHistory {
    /// Errors of the forecast, in units of the recipe's error size.
    Scores(ScoreHistogram<{ SHARES.len() }>),
    /// Errors of a naive forecast.
    Naive(TrailingQuantile),
    /// The recipe is left out.
    Ignored,
}

#[derive(Clone, Debug)]
pub(crate) struct QuantileEstimator {
    offsets: [isize; OFFSETS as usize],
    step: f64,
    size: ErrorSize,
    errors: [ErrorHistory; SIZES],
    recipe_weights: [EnsembleWeights<RECIPES, 2>; SHARES.len()],
    corrections: [f64; SHARES.len()],
    /// Set at long horizons only.
    level: Option<AdaptiveLevel<{ SHARES.len() }>>,
    /// Shares at which past errors are read: the nominal ones, or those adapted by `level`.
    shares: [f64; SHARES.len()],
}

impl QuantileEstimator {
    /// For a horizon of `slots`, evaluated every `every` slots.
    pub(crate) fn new(grid: &Grid, slots: usize, every: usize, floor: f64) -> Self {
        let (ahead, every) = (slots as f64, every as f64);
        let short = Decay {
            half_life: grid.hours(6.0).max(2.0 * ahead) / every,
            exponent: 1,
        };
        let long = Decay {
            half_life: grid.days(8.0).max(16.0 * ahead) / every,
            exponent: 2,
        };
        let is_long = grid.is_long(slots);
        let sharpness = if is_long { LONG_SHARPNESS } else { SHARPNESS };
        let wide = (grid.per_hour / 2).max(2) as isize;
        Self {
            offsets: [-wide, (-wide).div_euclid(2), 0, wide.div_euclid(2), wide],
            step: CORRECTION * (grid.hours(1.0) / ahead).powf(1.5).min(1.0),
            size: ErrorSize::new(grid, ahead, every, floor),
            errors: errors(grid, slots, every),
            recipe_weights: std::array::from_fn(|which| {
                EnsembleWeights::new([short, long], sharpness[which], floor)
            }),
            corrections: [0.0; SHARES.len()],
            level: is_long.then(|| AdaptiveLevel::new(SHARES, ahead / every)),
            shares: SHARES,
        }
    }

    /// Heap memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.size.bytes() + self.errors.iter().map(ErrorHistory::bytes).sum::<usize>()
    }

    /// Evaluates the quantiles of an observed slot whose forecast was wrong by `error`.
    pub(crate) fn evaluate(
        &mut self,
        estimate: &QuantileEstimate,
        seasons: &Seasons,
        position: SlotPosition,
        actual: f64,
        error: f64,
    ) {
        for (errors, size) in self.errors.iter_mut().zip(estimate.sizes) {
            match errors {
                ErrorHistory::Scores(scores) if estimate.has_sizes => {
                    scores.add(error / f64::from(size), &self.shares);
                }
                ErrorHistory::Naive(trailing) => trailing.evaluate(seasons, position, actual),
                ErrorHistory::Scores(_) | ErrorHistory::Ignored => {}
            }
        }
        let is_available = estimate.is_available();
        for (which, share) in SHARES.into_iter().enumerate() {
            let losses =
                estimate.recipes[which].map(|value| pinball(actual - f64::from(value), share));
            self.recipe_weights[which].add(losses, is_available);
            if is_available.contains(&true) {
                let missed = f64::from(u8::from(actual > f64::from(estimate.quantiles[which])));
                self.corrections[which] += self.step * (missed - (1.0 - share));
            }
        }
        if let (Some(level), Some(quantiles)) = (&mut self.level, estimate.quantiles()) {
            self.shares = level.evaluate(quantiles.map(|quantile| actual > quantile));
        }
        self.size.add(position.time, error);
    }

    /// Estimates the quantiles around a forecast. `range` is the largest value so far and the width
    /// of all values.
    pub(crate) fn estimate(
        &self,
        seasons: &Seasons,
        target: SlotPosition,
        forecast: f64,
        range: (f64, f64),
    ) -> QuantileEstimate {
        let mut estimate = QuantileEstimate::default();
        let Some(sizes) = self.size.sizes(target.time) else {
            return estimate;
        };
        estimate.has_sizes = true;
        estimate.sizes = sizes.map(|size| size as f32);
        for (recipe, (size, errors)) in sizes.into_iter().zip(&self.errors).enumerate() {
            let quantiles = match errors {
                ErrorHistory::Scores(scores) => {
                    let scores = scores.quantiles();
                    scores.map(|scores| scores.map(|score| forecast + size * score))
                }
                ErrorHistory::Naive(trailing) => trailing.quantiles(seasons, target, &self.shares),
                ErrorHistory::Ignored => None,
            };
            let Some(quantiles) = quantiles else { continue };
            estimate.has_errors[recipe] = true;
            for (values, quantile) in estimate.recipes.iter_mut().zip(quantiles) {
                values[recipe] = quantile as f32;
            }
        }
        if let Some(past) = self.past(seasons, target) {
            estimate.has_past = true;
            for (values, value) in estimate.recipes.iter_mut().zip(past) {
                values[SIZES] = value as f32;
            }
        }
        self.mix(&mut estimate, forecast, range);
        estimate
    }

    fn mix(&self, estimate: &mut QuantileEstimate, forecast: f64, (largest, range): (f64, f64)) {
        let is_available = estimate.is_available();
        if !is_available.contains(&true) {
            return;
        }
        let usual = self.size.day().unwrap_or_default();
        let mut before = forecast;
        for (which, recipe_weights) in self.recipe_weights.iter().enumerate() {
            let even = is_available.map(|is_available| f64::from(u8::from(is_available)));
            let weights = recipe_weights
                .weights(is_available)
                .unwrap_or_else(|| crate::ensemble_weights::normalised(even));
            let parts = estimate.recipes[which].iter().zip(weights);
            let mixed: f64 = parts
                .map(|(value, weight)| f64::from(*value) * weight)
                .sum();
            let corrected = mixed + self.corrections[which] * usual;
            let quantile = corrected.max(before).max(forecast);
            before = quantile.min(before.max(largest + range));
            estimate.quantiles[which] = before as f32;
        }
    }

    /// Large values around the time of day of a slot, in the last seven days.
    fn past(&self, seasons: &Seasons, target: SlotPosition) -> Option<[f64; SHARES.len()]> {
        let mut largest = [f32::NEG_INFINITY; LARGEST];
        let mut count = 0;
        for offset in self.offsets {
            if let Some(slot) = seasons.shifted(target, offset) {
                count += days_into(seasons, slot, &mut largest);
            }
        }
        (count >= FEWEST).then(|| {
            self.shares.map(|share| {
                let rank = whole_above(share * (count + 1) as f64).min(count);
                f64::from(largest[(count - rank).min(LARGEST - 1)])
            })
        })
    }
}

/// Error histories of a horizon. Short horizons: four times the forecast's own errors. Long
/// horizons: errors of yesterday, of last week and of zero, and below half a day the forecast's own
/// errors by time of day.
fn errors(grid: &Grid, slots: usize, every: f64) -> [ErrorHistory; SIZES] {
    let scores =
        || ErrorHistory::Scores(ScoreHistogram::new(grid.days(SCORE_HALF_LIFE_DAYS) / every));
    if !grid.is_long(slots) {
        return std::array::from_fn(|_| scores());
    }
    let evaluated = |days: f64| (grid.days(days) / every) as usize;
    let naive = |back, days| {
        ErrorHistory::Naive(TrailingQuantile::new(back, evaluated(1.0), evaluated(days)))
    };
    let is_far = slots as f64 >= grid.hours(FAR_HOURS);
    let own = if is_far {
        ErrorHistory::Ignored
    } else {
        scores()
    };
    // The third size is the one at that time of day.
    [
        naive(Some(1), ERROR_DAYS),
        naive(Some(7), ERROR_DAYS),
        own,
        naive(None, VALUE_DAYS),
    ]
}

impl ErrorHistory {
    fn bytes(&self) -> usize {
        match self {
            Self::Scores(scores) => scores.bytes(),
            Self::Naive(trailing) => trailing.bytes(),
            Self::Ignored => 0,
        }
    }
}

/// Merges a time of day of the seven days before a slot into `largest`. Returns the number of days.
fn days_into(seasons: &Seasons, slot: SlotPosition, largest: &mut [f32; LARGEST]) -> usize {
    // A profile is valid at most a day ahead; later slots have no yesterday yet.
    if seasons.days_before(slot, 1).is_some() {
        let profile = seasons.profile(slot);
        *largest = merged(*largest, profile.largest);
        return profile.days as usize;
    }
    let values = (2..=7).filter_map(|days| seasons.days_before(slot, days));
    values.map(|value| insert(value as f32, largest)).count()
}

/// Inserts a value into a descending list.
fn insert(mut value: f32, largest: &mut [f32; LARGEST]) {
    for position in largest {
        if value > *position {
            std::mem::swap(position, &mut value);
        }
    }
}

/// The largest values of two descending lists, descending.
fn merged(a: [f32; LARGEST], b: [f32; LARGEST]) -> [f32; LARGEST] {
    let sorted = |a: f32, b: f32| if a > b { (a, b) } else { (b, a) };
    // Bitonic merge: pairing one list with the reverse of the other leaves the largest values,
    // which two comparisons per half and quarter sort.
    let [first, second, third, fourth] =
        std::array::from_fn(|position| sorted(a[position], b[LARGEST - 1 - position]).0);
    let ((first, third), (second, fourth)) = (sorted(first, third), sorted(second, fourth));
    let ((first, second), (third, fourth)) = (sorted(first, second), sorted(third, fourth));
    [first, second, third, fourth]
}

/// Pinball loss: `share` per unit of an underestimate, `1 - share` per unit of an overestimate.
fn pinball(above: f64, share: f64) -> f64 {
    (share * above).max((share - 1.0) * above)
}

impl QuantileEstimate {
    fn is_available(&self) -> [bool; RECIPES] {
        let [first, second, third, fourth] = self.has_errors;
        [first, second, third, fourth, self.has_past]
    }

    /// The quantiles, or `None` without any recipe.
    pub(crate) fn quantiles(&self) -> Option<[f64; SHARES.len()]> {
        let is_any = self.is_available().contains(&true);
        is_any.then(|| self.quantiles.map(f64::from))
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
            let found = merged(of(a), of(b)).map(f32::to_bits);
            assert_eq!(found, expected.map(f32::to_bits), "{a:?} and {b:?}");
        }
    }

    #[test]
    fn the_largest_of_two_lists_are_those_of_all() {
        let largest = [8.0, 7.0, 6.0, 5.0];
        check([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], largest);
        check([8.0, 1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0], largest);
        let with_equal = [-1.0, 4.0, 4.0, -9.0, 2.0, 4.0, -3.0, 0.0];
        check(with_equal, [4.0, 4.0, 4.0, 2.0]);
    }
}
