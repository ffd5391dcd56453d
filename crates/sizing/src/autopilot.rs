//! Google Autopilot's sizing methods: statistics over moving windows with a margin, and an ensemble
//! of models that each weigh usage above the limit against usage below it and against changes.
//!
//! Source: Rzadca et al., *Autopilot: workload autoscaling at Google* (`EuroSys` 2020), sections
//! 3.2.1 to 3.2.3. Choices that the paper leaves open are documented where they are made: the
//! buckets are those of `buckets.rs` (176 growing by 5 %; the paper has about 400 fixed ones), each
//! represented by its upper bound.

mod ensemble;
mod history;
mod margin;
mod model;
mod moving_window;
mod open_window;
mod statistic;

pub use ensemble::EnsembleConfig;
pub(crate) use history::AutopilotHistory;
pub use history::AutopilotMethod;
pub use moving_window::MovingWindowConfig;
pub use statistic::Statistic;
