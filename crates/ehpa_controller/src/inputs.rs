//! Inputs of the controller and of Crane's metrics.

use tokio::sync::watch;
use view::View;

/// Observed objects and options of the controller.
#[derive(Clone)]
pub struct EhpaInputs {
    /// View with pods.
    pub view: watch::Receiver<View>,
    /// View with EHPAs and the objects that they own. Empty until their kinds are installed.
    pub horizontal: watch::Receiver<View>,
    /// Name of this recommender.
    pub recommender: String,
    /// Maximum number of concurrent passes.
    pub workers: usize,
}
