//! The metrics adapter: answers `custom.metrics.k8s.io` and `external.metrics.k8s.io`, which the horizontal pod autoscaler of
//! Kubernetes reads through API aggregation.
//!
//! * [`args`]: the flags.
//! * [`run`]: starts everything.
//! * [`ask`]: what a client asks for; [`answer`]: what it gets; [`refusal`]: why it gets none.
//! * [`decide`]: who answers.
//! * [`expected`]: predictions and windows of time.
//! * [`guard`]: who may ask.

pub mod answer;
pub mod args;
pub mod ask;
pub mod decide;
pub mod expected;
pub mod guard;
pub mod refusal;
mod run;

pub use args::{Args, PROGRAM};
pub use run::run;
