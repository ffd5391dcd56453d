//! How far a ratio of usage to target may be from one before the replica count changes.
//!
//! `1 - down <= ratio <= 1 + up`, both ends included. Source: upstream `replica_calculator.go`
//! (`Tolerances.isWithin`).

/// Tolerance in each direction, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Of scaling up.
    pub up: f64,
    /// Of scaling down.
    pub down: f64,
}

impl Default for Tolerance {
    /// What the controller's flag says unless it is set.
    fn default() -> Self {
        Self { up: 0.1, down: 0.1 }
    }
}

impl Tolerance {
    /// Whether the ratio asks for no change.
    pub fn covers(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}
