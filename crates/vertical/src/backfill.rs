//! Backfill of usage from before the start of the recommender, from Prometheus.
//!
//! * `progress`: which history is missing, and the order in which it is fetched.
//! * `ordered_samples`: samples of many series in order of time.
//! * `rebuild`: what the recommender would know had it run all the time.

mod ordered_samples;
mod progress;
mod rebuild;

pub(crate) use progress::BackfillProgress;
pub use progress::{FetchFailures, FetchRound, HistoryGap};
pub use rebuild::{PodLabels, Rebuild, RebuildStats, Resource};
