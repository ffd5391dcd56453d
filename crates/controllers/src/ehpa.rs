//! Controller of `EffectiveHorizontalPodAutoscaler` objects (EHPA): writes their HPAs, Substitutes,
//! predictions and status. The decisions are in [`horizontal::ehpa`].

mod args;
mod controller;
mod crane_metrics;
mod rule_file;
mod writer;

use tokio::sync::watch;
use view::View;

pub use args::EhpaArgs;
pub use controller::EhpaController;
pub use crane_metrics::CraneMetricsTask;
pub use rule_file::RulesReceiver;

/// Observed objects and options of the controller and of Crane's metrics.
#[derive(Clone)]
pub struct EhpaInputs {
    pub view: watch::Receiver<View>,
    /// View with EHPAs and the objects that they own. Empty until their kinds are installed.
    pub horizontal: watch::Receiver<View>,
    pub recommender: String,
    pub workers: usize,
}
