//! Exponentially weighted moving average.

/// Sum and weight of values, both multiplied by a decay factor for each new value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ewma {
    sum: f64,
    weight: f64,
}

impl Ewma {
    /// Adds a value after multiplying the weight of earlier ones by `decay`.
    pub(crate) fn add(&mut self, decay: f64, value: f64) {
        self.sum = decay * self.sum + value;
        self.weight = decay * self.weight + 1.0;
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// The factor per step that halves a weight after `half_life` steps.
pub(crate) fn decay_factor(half_life: f64) -> f64 {
    (-1.0 / half_life).exp2()
}
