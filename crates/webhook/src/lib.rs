//! The admission webhook: gives pods their recommended size when they are created, and refuses VPA
//! objects that make no sense. It never refuses a pod.
//!
//! * [`args`]: the flags.
//! * [`run`]: starts everything.
//! * crate `admission`: the decision on a review, as a pure function.
//! * [`serve`]: the HTTPS endpoint that the API server asks.
//! * [`overload`]: when there is more to do than can be done in time.
//! * [`registration`]: how the API server is told of the webhook.
//! * [`registrar`]: keeps it registered, with the CA bundle of its certificate.
//! * [`act`]: the only writes.
//! * [`metrics`]: what is measured about all this.

pub mod act;
pub mod args;
pub mod metrics;
pub mod overload;
pub mod registrar;
pub mod registration;
mod run;
pub mod serve;

pub use args::{Args, PROGRAM};
pub use run::{run, run_on};
