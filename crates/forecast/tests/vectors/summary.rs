//! Summary of a long series, as recorded.

use serde::Deserialize;

use crate::approx::is_close;

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
        assert_eq!(sampled.len(), self.every_nth.len(), "{which}");
        let parts = [
            (values.iter().sum(), self.sum, "sum".to_owned()),
            (
                values.iter().copied().fold(f64::MIN, f64::max),
                self.max,
                "max".to_owned(),
            ),
            (
                values.iter().copied().fold(f64::MAX, f64::min),
                self.min,
                "min".to_owned(),
            ),
        ];
        let nth = sampled.into_iter().zip(&self.every_nth).enumerate();
        let nth = nth.map(|(index, (found, expected))| {
            (found, *expected, format!("value {}", index * self.stride))
        });
        for (found, expected, part) in parts.into_iter().chain(nth) {
            assert!(
                is_close(found, expected, tolerance),
                "{which}, {part}: {found} for {expected}"
            );
        }
    }
}
