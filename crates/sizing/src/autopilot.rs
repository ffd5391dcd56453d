//! Google Autopilot's ways of sizing: statistics over moving windows with a margin, and an ensemble
//! of models that each weigh usage above the limit against usage below it and against change.
//!
//! Source: Rzadca et al., *Autopilot: workload autoscaling at Google* (`EuroSys` 2020), sections
//! 3.2.1 to 3.2.3. What the paper leaves open is decided here and said where it is decided: the
//! buckets are the ones of `buckets.rs` (176 growing by 5 %; the paper has about 400 fixed ones),
//! each standing for its upper bound.

mod counts;
mod ensemble;
mod history;
mod hourly_peaks;
mod margin;
mod model;
mod moving_window;
mod open_window;
mod recent_maximum;
mod statistic;

pub use ensemble::EnsembleConfig;
pub(crate) use history::AutopilotHistory;
pub use history::AutopilotMethod;
pub use moving_window::MovingWindowConfig;
pub use statistic::Statistic;
