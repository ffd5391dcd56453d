//! Backfill of usage from before the start of the recommender, from Prometheus.
//!
//! * `progress`: which history is missing.
//! * `ordered_samples`: samples of many series in order of time.
//! * `rebuild`: what the recommender would know had it run all the time.
//! * `round`: order in which namespaces are fetched.
//! * `label_names`: Kubernetes' names of the labels in a store.

mod label_names;
mod ordered_samples;
mod progress;
mod rebuild;
mod round;

pub(crate) use progress::BackfillProgress;
pub use progress::HistoryGap;
pub use rebuild::{PodLabels, Rebuild, RebuildInput, RebuildStats, Resource};
pub use round::{FetchFailures, FetchRound};
