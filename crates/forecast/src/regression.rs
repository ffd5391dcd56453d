//! How much of the present deviation from the daily profile is carried to the wanted time, and whether yesterday or last week is the
//! better template: least squares that fade (half-life 14 days), drawn towards a plain guess, large errors counting less.
//!
//! `(G + rho I) beta = v + rho b` with `G` and `v` the faded sums of `w x x'` and `w tau x`.

use crate::grid::Grid;

/// How many features there are. A forecast six hours ahead or more does without the last two.
pub(crate) const FEATURES: usize = 8;
const HALF_LIFE_DAYS: f64 = 14.0;
const RIDGE_DAYS: f64 = 0.03;
/// Errors count less from this multiple of their mean on, once so many were seen.
const LARGE: f64 = 2.0;
const SEEN: u32 = 50;
const MEAN_KEEP: f64 = 0.999;

type Vector = [f64; FEATURES];

/// The regression of one horizon.
#[derive(Clone, Debug)]
pub(crate) struct Regression {
    features: usize,
    keep: f64,
    ridge: f64,
    guess: Vector,
    squares: [Vector; FEATURES],
    products: Vector,
    count: f64,
    seen: u32,
    errors: f64,
    errors_weight: f64,
    beta: Vector,
}

impl Regression {
    /// For a forecast so many slots ahead.
    pub(crate) fn new(grid: &Grid, slots: usize) -> Self {
        let hours = slots as f64 / grid.hours(1.0);
        let deviation = if hours < 1.0 { 0.5 } else { 0.2 };
        let hour = if hours <= 1.0 { 0.4 } else { 0.1 };
        let guess = [0.0, 0.0, 0.0, deviation, hour, 0.1, 0.0, 0.0];
        Self {
            features: if hours < 6.0 { FEATURES } else { 6 },
            keep: crate::discounted::keep(grid.days(HALF_LIFE_DAYS)),
            ridge: RIDGE_DAYS * grid.days(1.0),
            guess,
            squares: [[0.0; FEATURES]; FEATURES],
            products: [0.0; FEATURES],
            count: 0.0,
            seen: 0,
            errors: 0.0,
            errors_weight: 0.0,
            beta: guess,
        }
    }

    /// The features that count for this horizon; the others are zero.
    pub(crate) fn counted(&self, mut features: [f32; FEATURES]) -> [f32; FEATURES] {
        features[self.features..].fill(0.0);
        features
    }

    /// By how much the wanted slot will deviate from its profile.
    pub(crate) fn predict(&self, features: &[f32; FEATURES]) -> f64 {
        features.iter().zip(&self.beta).map(|(feature, beta)| f64::from(*feature) * beta).sum()
    }

    /// Learns from a forecast: what it was told, what it said, and what came.
    pub(crate) fn learn(&mut self, features: &[f32; FEATURES], predicted: f64, actual: f64) {
        let features = features.map(f64::from);
        let error = (actual - predicted).abs();
        self.seen = self.seen.saturating_add(1);
        let usual = if self.errors_weight > 0.0 { self.errors / self.errors_weight } else { 0.0 };
        let weight = if self.seen >= SEEN && error > 0.0 { (LARGE * usual / error).min(1.0) } else { 1.0 };
        self.errors = MEAN_KEEP * self.errors + error;
        self.errors_weight = MEAN_KEEP * self.errors_weight + 1.0;
        for (row, feature) in self.squares.iter_mut().zip(features) {
            let weighted = weight * feature;
            for (square, other) in row.iter_mut().zip(features) {
                *square = self.keep * *square + weighted * other;
            }
        }
        for (product, feature) in self.products.iter_mut().zip(features) {
            *product = self.keep * *product + weight * feature * actual;
        }
        self.count = self.keep * self.count + 1.0;
    }

    /// Computes what is predicted with from now on.
    pub(crate) fn solve(&mut self) {
        let trace: f64 = (0..FEATURES).map(|index| self.squares[index][index]).sum();
        let ridge = self.ridge * trace / (self.features as f64 * self.count.max(1.0)) + 1e-12;
        let mut matrix = self.squares;
        let mut right = self.products;
        for index in 0..FEATURES {
            matrix[index][index] += ridge;
            right[index] += ridge * self.guess[index];
        }
        if let Some(beta) = cholesky(matrix, right) {
            self.beta = beta;
        }
    }
}

/// Solves a symmetric positive definite system, of which the lower half is given; none where rounding made it something else.
fn cholesky(mut matrix: [Vector; FEATURES], mut right: Vector) -> Option<Vector> {
    for row in 0..FEATURES {
        for column in 0..=row {
            let before: f64 = (0..column).map(|index| matrix[row][index] * matrix[column][index]).sum();
            let rest = matrix[row][column] - before;
            if row == column {
                if rest <= 0.0 || !rest.is_finite() {
                    return None;
                }
                // Kept upside down: divisions are dear.
                matrix[row][row] = 1.0 / rest.sqrt();
            } else {
                matrix[row][column] = rest * matrix[column][column];
            }
        }
        let before: f64 = (0..row).map(|index| matrix[row][index] * right[index]).sum();
        right[row] = (right[row] - before) * matrix[row][row];
    }
    for row in (0..FEATURES).rev() {
        let after: f64 = (row + 1..FEATURES).map(|index| matrix[index][row] * right[index]).sum();
        right[row] = (right[row] - after) * matrix[row][row];
    }
    Some(right)
}
