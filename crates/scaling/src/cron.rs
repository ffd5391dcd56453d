//! Windows of time in which a workload has at least so many replicas, as crons in time zones.
//!
//! `schedule.rs` reads the five fields, `fields.rs` one of them, `occurrence.rs` finds when they
//! come next in a time zone, `window.rs` tells whether a window is open, and `replicas.rs` what all
//! windows of an object ask for.

mod fields;
mod occurrence;
mod replicas;
mod schedule;
mod window;

pub use replicas::{CronReplicas, cron_replicas};
pub use schedule::{Schedule, ScheduleError};
pub use window::{Window, WindowError, metric_name, time_zone};
