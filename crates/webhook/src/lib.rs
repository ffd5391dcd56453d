//! The admission webhook: gives pods their recommended size when they are created, and refuses VPA
//! objects that make no sense. It never refuses a pod.
//!
//! * [`args`]: the flags.
//! * [`run`]: starts everything.
//! * [`state`]: what is known, as a review sees it.
//! * [`decide`]: from a review to its answer, as a pure function.
//!   `select`: which autoscaler sizes a pod; `pod`, `boost`, `patch`: what the pod is changed to;
//!   `validate`, `fields`: which objects are refused, and why.
//! * [`serve`]: the HTTPS endpoint that the API server asks.
//! * [`overload`]: when there is more to do than can be done in time.
//! * [`registration`]: how the API server is told of the webhook.
//! * [`certificates`]: whom it is told to trust.
//! * [`act`]: the only writes.
//! * [`metrics`]: what is measured about all this.

pub mod act;
pub mod args;
mod boost;
pub mod certificates;
pub mod decide;
mod fields;
pub mod metrics;
pub mod overload;
mod patch;
mod pod;
pub mod registration;
mod review;
mod run;
mod select;
pub mod serve;
pub mod state;
mod validate;

pub use args::{Args, PROGRAM};
pub use run::{run, run_on};
