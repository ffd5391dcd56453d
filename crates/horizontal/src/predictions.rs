//! Forecasts of the metrics of `TimeSeriesPrediction` objects: from a history to the feed and the
//! status.
//!
//! | topic | file |
//! |---|---|
//! | objects, and the next query for a history | `prediction_set.rs`, `metric_entry.rs`, `query_slots.rs`, `memory_limits.rs` |
//! | metrics of an object, annotations; methods, Crane's settings | `spec.rs`, `annotations.rs`, `method.rs`, `peak_settings.rs`, `crane_settings.rs` |
//! | query for a history, restricted to what the object may read | `query.rs`, `access.rs` |
//! | one metric: time ranges to read, models, forecast | `pipeline.rs`, `model.rs` |
//! | results of one object; limits on what is kept and published | `result.rs`, `published_series.rs` |
//! | status and its conditions | `status.rs` |
//!
//! Source of names and rules: gocrane/crane `pkg/prediction` and
//! `pkg/controller/timeseriesprediction`.

mod access;
mod annotations;
mod crane_settings;
mod memory_limits;
mod method;
mod metric_entry;
mod model;
mod peak_settings;
mod pipeline;
mod prediction_set;
mod published_series;
mod query;
mod query_slots;
mod read_range;
mod result;
mod spec;
mod status;

pub use access::{Expression, KnownRules, QueryAccess, QueryScope};
pub(crate) use annotations::Annotations;
pub use forecast::{PeakAccuracy, SetAside, SimpleMethod};
pub use memory_limits::MemoryLimits;
pub use method::{Method, Quantile};
pub use model::{FitResult, FitTask, Labels};
pub(crate) use peak_settings::MIN_WINDOW;
pub use pipeline::MetricPipeline;
pub use prediction_set::{HistoryChange, MetricKey, PredictionSet, ReadRequest, SyncResult};
pub use promql::Excess;
pub(crate) use query::any_of;
pub use query::{Query, Resource};
pub use query_slots::QuerySlots;
pub use read_range::{ReadFailure, ReadIntervals, ReadRange, Samples};
pub use result::{MetricForecasts, MetricResult, PredictionResult};
pub(crate) use spec::method;
pub use spec::{ForecastSpec, PredictionSpec};
pub use status::{StatusUpdate, status_update};

/// Maximum length of a quoted text, in characters.
const MAX_QUOTED: usize = 100;

pub fn truncate(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn quoted(text: &str) -> String {
    let short = truncate(text, MAX_QUOTED);
    if short.len() < text.len() {
        format!("{short:?}...")
    } else {
        format!("{short:?}")
    }
}

#[cfg(test)]
mod tests;
