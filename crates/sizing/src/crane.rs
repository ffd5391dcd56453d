//! Crane's sizing method: a weighted percentile over linear buckets, a margin, a target
//! utilisation, protection after OOM kills and optionally the next size of a list.
//!
//! Source: gocrane/crane `pkg/prediction/percentile` and `pkg/recommendation/recommender/resource`.
//! Differences, with reasons: a size of the list keeps its exact value (there it is printed with
//! two decimals, so that 0.125 cores become 0.12), and invalid settings are errors instead of being
//! replaced by defaults.

mod duration;
mod histogram;
mod history;
mod percentile;
mod resource;
mod specification;

pub use duration::parse as parse_duration;
pub use histogram::{Layout, WeightedHistogram};
pub(crate) use history::CraneHistory;
pub use percentile::{HistogramSettings, PercentilePredictor, PercentileSettings};
pub use resource::{CraneConfig, protected_memory};
pub use specification::{Specification, Specifications};
