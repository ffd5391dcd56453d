//! Summary of a long series, as recorded.

use serde::Deserialize;

use crate::approx::{check_all_close, check_close};

#[derive(Deserialize)]
pub(crate) struct Summary {
    count: usize,
    stride: usize,
    every_nth: Vec<f64>,
    sum: f64,
    max: f64,
    min: f64,
}

impl Summary {
    /// Panics if the values differ.
    pub(crate) fn check(&self, values: &[f64], tolerance: f64, which: &str) {
        assert_eq!(values.len(), self.count, "{which}");
        let sampled: Vec<f64> = values.iter().step_by(self.stride.max(1)).copied().collect();
        let sampled_of = format!("{which}, every {}. value", self.stride);
        check_all_close(&sampled, &self.every_nth, tolerance, &sampled_of);
        let fold = |from, of: fn(f64, f64) -> f64| values.iter().copied().fold(from, of);
        for (found, expected, part) in [
            (values.iter().sum(), self.sum, "sum"),
            (fold(f64::MIN, f64::max), self.max, "max"),
            (fold(f64::MAX, f64::min), self.min, "min"),
        ] {
            check_close(found, expected, tolerance, &format!("{which}, {part}"));
        }
    }
}
