//! Replays of recorded demand through the native HPA and predicted metrics, in quarters of a minute.
//!
//! | topic | file |
//! |---|---|
//! | ready and starting pods | `pods.rs` |
//! | passes of the HPA, violations, pod-hours, scalings | `autoscaler.rs` |
//! | predicted metrics of our programs | `program.rs` |

mod autoscaler;
mod pods;
mod program;

pub use crate::hpa::Bounds;
pub use autoscaler::{Autoscaler, Score};
pub use program::Program;

/// Demand per minute. Replays take it in capacities of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Start of the first minute in seconds since 1970, a whole minute.
    pub start: i64,
    /// Demand of each minute; `None` if it was not measured.
    pub minutes: Vec<Option<f64>>,
}

impl Demand {
    /// The values of a predicted metric after each number of minutes. `predict` gets the end of a
    /// minute and its demand, and returns the value that the HPA reads during the next minute.
    pub fn published(
        &self,
        mut predict: impl FnMut(i64, Option<f64>) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let minutes = self.minutes.iter().enumerate();
        let later =
            minutes.map(|(minute, value)| predict(self.start + 60 * (minute as i64 + 1), *value));
        std::iter::once(None).chain(later).collect()
    }
}
