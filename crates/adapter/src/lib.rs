//! The metrics adapter: answers `custom.metrics.k8s.io` and `external.metrics.k8s.io`, which the
//! horizontal pod autoscaler of Kubernetes reads through API aggregation.
//!
//! * [`args`]: the flags.
//! * [`run`]: starts everything.
//! * [`ask`]: what a client asks for; [`answer`]: what it gets; [`refusal`]: why it gets none.
//! * [`decide`]: who answers.
//! * [`expected`]: predictions and windows of time.
//! * [`routes`]: what is left to other providers.
//! * [`serve`]: the HTTPS endpoint that the API server asks.
//! * [`registration`]: how the API server is told whom to trust; [`act`]: the only writes.
//! * [`takeover`]: how a person has it take the place of another provider, and give it back.
//! * [`metrics`]: what is measured about all this.
//! * [`rules`]: metrics from queries, as prometheus-adapter's rule file says.

pub mod act;
pub mod api_version;
pub mod args;
pub mod flow;
pub mod metrics;
pub mod predictions;
pub mod providers;
pub mod registration;
pub mod request;
pub mod routes;
pub mod rules;
mod run;
pub mod serve;
pub mod service_ref;
pub mod status_error;
pub mod takeover;
pub mod value;

pub use args::{Args, PROGRAM};
pub use run::{run, run_on};
