//! Controllers of the recommender, for one term of leadership: watched objects in, writes out. The
//! decisions are in [`vertical::sizing_policies`] and [`horizontal`].
//!
//! * [`ehpa`]: EHPAs to native HPAs, predictions and Crane's metrics.
//! * [`predictions`]: histories to forecasts, in statuses and on the feed.
//! * [`sizing_policies`]: sizing policies to VPA objects.

pub mod ehpa;
pub mod predictions;
pub mod sizing_policies;
