//! The admission webhook: gives pods their recommended size when they are created, and refuses VPA objects that make no sense.
//! It never refuses a pod.
//!
//! * [`args`]: the flags.
//! * [`run`]: starts everything.
//! * [`state`]: what is known, as a review sees it.
//! * [`decide`]: from a review to its answer, as a pure function.
//! * [`serve`]: the HTTPS endpoint that the API server asks.
//! * [`metrics`]: what is measured about all this.

pub mod args;
pub mod decide;
pub mod metrics;
mod run;
pub mod serve;
pub mod state;

pub use args::{Args, PROGRAM};
pub use run::run;
