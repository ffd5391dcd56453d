//! Share of the present deviation from the daily profile that persists until the forecast slot, and
//! the better template of yesterday and last week. Least squares with decay (half-life 14 days),
//! regularised towards a fixed prior, with large errors weighted less.
//!
//! `(G + rho I) beta = v + rho b` with `G` and `v` the decayed sums of `w x x'` and `w tau x`.

use crate::ewma::{Ewma, decay_factor};
use crate::grid::Grid;

/// Number of features. Horizons of six hours and more do without the last two.
pub(crate) const FEATURES: usize = 8;
const HALF_LIFE_DAYS: f64 = 14.0;
const RIDGE_DAYS: f64 = 0.03;
/// Multiple of the mean error from which errors count less, after [`SEEN`] errors.
const LARGE: f64 = 2.0;
const SEEN: u32 = 50;
const MEAN_DECAY: f64 = 0.999;

type Vector = [f64; FEATURES];
const HALF: usize = FEATURES / 2;

#[derive(Clone, Debug)]
pub(crate) struct Regression {
    features: usize,
    decay: f64,
    ridge: f64,
    guess: Vector,
    squares: [Vector; FEATURES],
    products: Vector,
    count: f64,
    seen: u32,
    errors: Ewma,
    beta: Vector,
}

impl Regression {
    pub(crate) fn new(grid: &Grid, slots: usize) -> Self {
        let hours = slots as f64 / grid.hours(1.0);
        let deviation = if hours < 1.0 { 0.5 } else { 0.2 };
        let hour = if hours <= 1.0 { 0.4 } else { 0.1 };
        let guess = [0.0, 0.0, 0.0, deviation, hour, 0.1, 0.0, 0.0];
        Self {
            features: if hours < 6.0 { FEATURES } else { 6 },
            decay: decay_factor(grid.days(HALF_LIFE_DAYS)),
            ridge: RIDGE_DAYS * grid.days(1.0),
            guess,
            squares: [[0.0; FEATURES]; FEATURES],
            products: [0.0; FEATURES],
            count: 0.0,
            seen: 0,
            errors: Ewma::default(),
            beta: guess,
        }
    }

    /// The features that count for this horizon; the others are zero.
    pub(crate) fn counted(&self, mut features: [f32; FEATURES]) -> [f32; FEATURES] {
        features[self.features..].fill(0.0);
        features
    }

    /// Expected deviation of the forecast slot from its profile.
    pub(crate) fn predict(&self, features: &[f32; FEATURES]) -> f64 {
        let products = features.iter().zip(&self.beta);
        products
            .map(|(feature, beta)| f64::from(*feature) * beta)
            .sum()
    }

    /// Learns from the features, the forecast and the actual deviation of a slot.
    pub(crate) fn learn(&mut self, features: &[f32; FEATURES], predicted: f64, actual: f64) {
        let features = features.map(f64::from);
        let error = (actual - predicted).abs();
        self.seen = self.seen.saturating_add(1);
        let usual = self.errors.mean().unwrap_or_default();
        let weight = if self.seen >= SEEN && error > 0.0 {
            (LARGE * usual / error).min(1.0)
        } else {
            1.0
        };
        self.errors.add(MEAN_DECAY, error);
        // The matrix is symmetric and only the upper triangle is read, so the lower rows skip their
        // first half.
        let (upper, lower) = self.squares.split_at_mut(HALF);
        for (row, feature) in upper.iter_mut().zip(features) {
            fade_and_add(row, self.decay, weight * feature, &features);
        }
        let values = &features[HALF..];
        for (row, feature) in lower.iter_mut().zip(values) {
            fade_and_add(&mut row[HALF..], self.decay, weight * feature, values);
        }
        for (product, feature) in self.products.iter_mut().zip(features) {
            *product = self.decay * *product + weight * feature * actual;
        }
        self.count = self.decay * self.count + 1.0;
    }

    pub(crate) fn solve(&mut self) {
        let trace: f64 = (0..FEATURES).map(|index| self.squares[index][index]).sum();
        let ridge = self.ridge * trace / (self.features as f64 * self.count.max(1.0)) + 1e-12;
        let mut system = System {
            matrix: self.squares,
            right: self.products,
            factors: [[0.0; FEATURES]; FEATURES],
        };
        for index in 0..FEATURES {
            system.matrix[index][index] += ridge;
            system.right[index] += ridge * self.guess[index];
        }
        if let Some(beta) = system.solve() {
            self.beta = beta;
        }
    }
}

fn fade_and_add(sums: &mut [f64], decay: f64, weight: f64, values: &[f64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = decay * *sum + weight * value;
    }
}

/// Symmetric positive definite system, solved by elimination without pivoting. Only the upper
/// triangle of the matrix is read.
struct System {
    matrix: [Vector; FEATURES],
    right: Vector,
    /// Elimination factors by row and pivot.
    factors: [Vector; FEATURES],
}

impl System {
    /// The solution, or `None` if rounding made the matrix indefinite.
    fn solve(mut self) -> Option<Vector> {
        // Unrolled: with a constant pivot each step is straight-line code, three times as fast.
        self.eliminate::<0>()?;
        self.eliminate::<1>()?;
        self.eliminate::<2>()?;
        self.eliminate::<3>()?;
        self.eliminate::<4>()?;
        self.eliminate::<5>()?;
        self.eliminate::<6>()?;
        self.eliminate::<7>()?;
        for pivot in (0..FEATURES).rev() {
            let known = self.right[pivot];
            for (value, factor) in self.right[..pivot].iter_mut().zip(&self.factors[pivot]) {
                *value -= factor * known;
            }
        }
        Some(self.right)
    }

    /// Subtracts the pivot's row from those below, so that their column of the pivot is zero.
    fn eliminate<const PIVOT: usize>(&mut self) -> Option<()> {
        let row = self.matrix[PIVOT];
        if row[PIVOT] <= 0.0 || !row[PIVOT].is_finite() {
            return None;
        }
        let inverse = 1.0 / row[PIVOT];
        for below in PIVOT + 1..FEATURES {
            let factor = row[below] * inverse;
            for (value, above) in self.matrix[below][below..].iter_mut().zip(&row[below..]) {
                *value -= factor * above;
            }
            self.right[below] -= factor * self.right[PIVOT];
            self.factors[below][PIVOT] = factor;
        }
        self.right[PIVOT] *= inverse;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elimination_finds_what_was_multiplied() {
        let matrix: [Vector; FEATURES] = std::array::from_fn(|row| {
            std::array::from_fn(|column| {
                if row == column {
                    10.0
                } else {
                    1.0 / (1.0 + (row + column) as f64)
                }
            })
        });
        let wanted: Vector = std::array::from_fn(|index| index as f64 - 3.0);
        let right = matrix.map(|row| {
            row.iter()
                .zip(wanted)
                .map(|(value, wanted)| value * wanted)
                .sum()
        });
        let factors = [[0.0; FEATURES]; FEATURES];
        let found = System {
            matrix,
            right,
            factors,
        }
        .solve()
        .expect("positive definite");
        assert!(
            found
                .iter()
                .zip(wanted)
                .all(|(found, wanted)| (found - wanted).abs() < 1e-12),
            "{found:?}"
        );
        assert_eq!(
            System {
                matrix: [[1.0; FEATURES]; FEATURES],
                right,
                factors
            }
            .solve(),
            None
        );
    }
}
