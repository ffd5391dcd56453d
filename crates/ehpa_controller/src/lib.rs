//! Controller of `EffectiveHorizontalPodAutoscaler` objects (EHPA): writes their HPAs, Substitutes,
//! predictions and status, for one term of leadership. The decisions are in [`horizontal::ehpa`].
//!
//! * `args`: flags.
//! * `inputs`: observed objects and options.
//! * `controller`: passes over EHPAs, and the restoration of HPAs whose EHPA is gone.
//! * `writer`: the only writes.
//! * `rule_file`: rules of prometheus-adapter for the history of metrics.
//! * `crane_metrics`: Crane's metrics about EHPAs and predictions.

mod args;
mod controller;
mod crane_metrics;
mod inputs;
mod rule_file;
mod writer;

pub use args::EhpaArgs;
pub use controller::EhpaController;
pub use crane_metrics::CraneMetricsTask;
pub use inputs::EhpaInputs;
pub use rule_file::RulesReceiver;
