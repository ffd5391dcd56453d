//! Cron windows: minimum replicas during recurring time windows with time zones.
//!
//! `schedule.rs` parses the five fields, `fields.rs` one of them, `occurrence.rs` finds the next
//! time in a time zone, and `window.rs` decides whether a window is open.

mod fields;
mod occurrence;
mod schedule;
mod window;

use jiff::Timestamp;

pub use schedule::Schedule;
pub use window::{Period, Window, WindowError, metric_name, time_zone};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronReplicas {
    pub min: i32,
    /// Current number of replicas, if windows are the only metric.
    pub kept: Option<i32>,
}

/// The maximum of the open windows, which raise and never cap. Without an open window, an object
/// with other metrics gets its minimum, so that they decide, and one with windows alone keeps its
/// current replicas. Source: Crane's documentation; its program returns the minimum in both cases.
pub fn cron_replicas(windows: &[Window], workload: CronReplicas, now: Timestamp) -> i32 {
    let open = windows.iter().filter(|window| window.is_open(now));
    let open = open.map(|window| window.target_replicas).max();
    match (open, workload.kept) {
        (Some(target), _) => target.max(workload.min),
        (None, Some(kept)) => kept,
        (None, None) => workload.min,
    }
}
