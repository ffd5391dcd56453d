//! Forecasts of the metrics of `TimeSeriesPrediction` objects: from a history to the feed and the
//! status.
//!
//! | topic | file |
//! |---|---|
//! | objects, and the next query for a history | `prediction_set.rs`, `metric_entry.rs`, `query_slots.rs` |
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
mod method;
mod metric_entry;
mod model;
mod peak_settings;
mod pipeline;
mod prediction_set;
mod published_series;
mod query;
mod query_slots;
mod result;
mod spec;
mod status;

use std::collections::BTreeMap;

pub use access::{Expression, KnownRules, QueryAccess, QueryScope};
pub(crate) use annotations::Annotations;
pub use forecast::{PeakAccuracy, SetAside, SimpleMethod};
pub use method::{Method, Quantile};
pub use metric_entry::MemoryLimits;
pub use model::{FitResult, FitTask, Labels};
pub(crate) use peak_settings::MIN_WINDOW;
pub use pipeline::MetricPipeline;
pub use prediction_set::{HistoryChange, MetricKey, PredictionSet, ReadRequest, SyncResult};
pub use promql::Excess;
pub(crate) use query::any_of;
pub use query::{Query, Resource};
pub use query_slots::QuerySlots;
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

/// Intervals of work on one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadIntervals {
    pub read_seconds: i64,
    /// Seconds between fits of Crane's DSP predictor.
    pub refit_seconds: i64,
}

/// Points to read, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRange {
    pub first: i64,
    pub last: i64,
    /// Seconds between points.
    pub step: u32,
}

/// Part of a range that is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadChunk {
    range: ReadRange,
    is_last: bool,
}

/// Samples of each series, by its labels.
pub type Samples = BTreeMap<Labels, Vec<(i64, f64)>>;

/// Reason for which a read failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFailure {
    /// Text for the status of the prediction.
    pub why: String,
    /// The bound that the answer exceeds.
    pub excess: Option<Excess>,
    /// Causes and query, for the log only.
    pub details: String,
}

impl ReadFailure {
    /// A failure that is not due to a limit.
    pub fn refused(why: String) -> Self {
        Self {
            why,
            excess: None,
            details: String::new(),
        }
    }
}
