//! The admission webhook: sizes pods when they are created, and refuses invalid VPA objects. It
//! never refuses a pod.
//!
//! | module | contents |
//! |---|---|
//! | [`args`] | the flags |
//! | [`config`] | the file of `--config` |
//! | `cut_off` | readiness of a replica whose watches do not work |
//! | [`heartbeat`] | the renewal of the Lease that the updater watches |
//! | [`metrics`] | metrics of reviews |
//! | [`overload`] | the detection of overload |
//! | [`registration`] | the `MutatingWebhookConfiguration` and its CA bundle |
//! | [`serve`](mod@serve) | the HTTPS endpoint that the API server sends reviews to |
//!
//! The decision on a review is a pure function of crate `admission`. The webhook writes only its
//! registration, its heartbeat and its certificates: no pod, and no VPA object.

pub mod args;
pub mod config;
mod cut_off;
pub mod heartbeat;
pub mod metrics;
pub mod overload;
pub mod registration;
mod run;
pub mod serve;

pub use args::{Args, PROGRAM};
pub use run::{run, run_on};
