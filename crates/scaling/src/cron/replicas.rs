//! Replicas of an object's windows: the maximum of the open ones.
//!
//! A window raises and never caps. Without an open window, an object with other metrics gets its
//! minimum, so that they decide, and one with windows alone keeps its current replicas. Source:
//! Crane's documentation; its program returns the minimum in both cases.

use jiff::Timestamp;

use super::Window;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronReplicas {
    pub min: i32,
    /// Current number of replicas, if windows are the only metric.
    pub kept: Option<i32>,
}

pub fn cron_replicas(windows: &[Window], workload: CronReplicas, now: Timestamp) -> i32 {
    let open = windows.iter().filter(|window| window.is_open(now));
    let open = open.map(|window| window.target_replicas).max();
    match (open, workload.kept) {
        (Some(target), _) => target.max(workload.min),
        (None, Some(kept)) => kept,
        (None, None) => workload.min,
    }
}
