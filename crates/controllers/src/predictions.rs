//! Controller of `TimeSeriesPrediction` objects: reads the histories of their metrics in every
//! replica, so that a new leader is warm, and in the leader publishes forecasts on the feed and
//! writes statuses. The decisions are in [`horizontal::predictions`].
//!
//! * `args`: flags.
//! * `collector`: reads of histories, from Prometheus or from rounds of usage.
//! * `fit_pool`: threads for fits.
//! * `store`: results, shared by the collector and the controller.
//! * `controller`: the feed and status writes of the leader.
//! * `writer`: the only writes.
//! * `metrics`: metrics of all this.

mod args;
mod collector;
mod controller;
mod fit_pool;
mod metrics;
mod store;
mod writer;

pub use args::{DataSource, PredictionArgs};
pub use collector::{Round, Source};
pub use controller::{PredictionController, PredictionInputs};
pub use metrics::ForecastMetrics;
