//! The metrics adapter: serves `custom.metrics.k8s.io` and `external.metrics.k8s.io`, which the
//! HPA controller reads through API aggregation.
//!
//! * [`args`]: the flags.
//! * [`config`]: settings that no flag has; `run`: the wiring.
//! * [`serve`]: the HTTPS endpoint. Callers are authenticated and authorized by [`delegated_auth`].
//! * [`request`], [`value`]: requests for metrics, versions of the APIs, values, and errors.
//! * [`providers`]: the choice of the provider of a metric.
//! * [`predictions`]: predictions and cron schedules of EHPAs.
//! * [`rules`]: metrics from the rule files of prometheus-adapter.
//! * [`routes`]: external metrics of other providers.
//! * [`flow_limiter`]: fair shares of limits.
//! * [`api_service_ca`]: CA bundles of the adapter's `APIService` objects; [`api_service_writer`]: writes.
//! * [`metrics`]: metrics of the adapter itself.

pub mod api_service_ca;
pub mod api_service_writer;
pub mod args;
pub mod config;
pub mod flow_limiter;
pub mod metrics;
pub mod predictions;
pub mod providers;
pub mod request;
pub mod routes;
pub mod rules;
mod run;
pub mod serve;
pub mod value;

pub use args::{Args, PROGRAM};
pub use run::{run, run_on};
