//! Controller of `TimeSeriesPrediction` objects: reads the histories of their metrics in every
//! replica, so that a new leader is warm, and in the leader publishes forecasts on the feed and
//! writes statuses. The decisions are in [`horizontal::predictions`].

mod args;
mod collector;
mod controller;
mod fit_pool;
mod metrics;
mod settings;
mod writer;

use std::sync::Arc;

use feed::{Forecast, Publisher};
use horizontal::ehpa::Rules;
use tokio::sync::watch;
use view::View;

pub use args::{DataSource, PredictionArgs};
pub use collector::{Round, Source};
pub use controller::PredictionController;
pub use metrics::ForecastMetrics;
pub use settings::PredictionSettings;

pub struct PredictionInputs {
    /// View with predictions. Empty until their kinds are installed.
    pub horizontal: watch::Receiver<View>,
    pub recommender: String,
    pub settings: PredictionSettings,
    /// Maximum number of concurrent writes.
    pub workers: usize,
    /// Rules that allow queries more than the flags do, if there are any.
    pub rules: Option<watch::Receiver<Option<Arc<Rules>>>>,
    pub source: Source,
    pub publisher: Option<Publisher<Forecast>>,
}
