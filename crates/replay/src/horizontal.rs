//! Replays of recorded demand through the native HPA and predicted metrics, in quarters of a minute.
//!
//! | topic | file |
//! |---|---|
//! | demand per minute, in pods | `demand.rs` |
//! | ready and starting pods | `pods.rs` |
//! | passes of the HPA, violations, pod-hours, scalings | `autoscaler.rs` |
//! | violations at equal pods, intervals over series | `curve.rs` |
//! | predicted metrics of our programs and of peers | `predictors.rs` |

mod autoscaler;
mod curve;
mod demand;
mod pods;
pub mod predictors;

pub use autoscaler::{Autoscaler, Bounds, Score};
pub use curve::{Curve, geometric_mean, ratio_of_sums, with_interval};
pub use demand::Demand;
pub use predictors::{Predictor, published};
