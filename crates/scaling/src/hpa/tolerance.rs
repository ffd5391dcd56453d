//! Tolerance of the ratio of usage to target.
//!
//! `1 - down <= ratio <= 1 + up`, both ends included. Source: upstream `replica_calculator.go`
//! (`Tolerances.isWithin`).

/// Tolerance in each direction, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    pub up: f64,
    pub down: f64,
}

impl Default for Tolerance {
    /// Default of the controller's flag.
    fn default() -> Self {
        Self { up: 0.1, down: 0.1 }
    }
}

impl Tolerance {
    pub fn covers(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}
