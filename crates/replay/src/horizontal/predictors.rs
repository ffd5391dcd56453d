//! Values of a predicted metric, minute by minute.
//!
//! | predictor | file |
//! |---|---|
//! | methods of our programs, with Crane's | `program.rs` |
//! | simple methods, Autopilot's, the future itself | `peers.rs` |

mod peers;
mod program;

pub use peers::{Autopilot, Oracle, SeasonalLevel};
pub use program::Program;

use super::Demand;

/// Source of a predicted metric. Times are seconds since 1970.
pub trait Predictor {
    /// Adds the demand of the minute that ended at `end`, if it was measured. Returns the value that
    /// the HPA reads during the next minute, if there is a prediction.
    fn minute(&mut self, end: i64, demand: Option<f64>) -> Option<f64>;
}

/// The values of a predictor after each number of minutes.
pub fn published(demand: &Demand, predictor: &mut dyn Predictor) -> Vec<Option<f64>> {
    let minutes = demand.minutes.iter().enumerate();
    let later = minutes
        .map(|(minute, value)| predictor.minute(demand.start + 60 * (minute as i64 + 1), *value));
    std::iter::once(None).chain(later).collect()
}
