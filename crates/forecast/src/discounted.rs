//! A mean in which what is older counts less.

/// Sum and weight of values, each fading by a factor whenever a new value comes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Discounted {
    sum: f64,
    weight: f64,
}

impl Discounted {
    /// Adds a value; what was there before counts `keep` times as much as until now.
    pub(crate) fn add(&mut self, keep: f64, value: f64) {
        self.sum = keep * self.sum + value;
        self.weight = keep * self.weight + 1.0;
    }

    /// The mean; none before the first value.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// By which factor something fades each time, when half of it is left after `half_life` times.
pub(crate) fn keep(half_life: f64) -> f64 {
    (-1.0 / half_life).exp2()
}
