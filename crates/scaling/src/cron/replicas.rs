//! What the windows of an object ask for: the most of those that are open.
//!
//! A window raises and never caps. When none is open, an object that is scaled by other metrics too
//! is left to them (the answer is its minimum), and one that has windows alone keeps what it has.
//! Source: Crane's documentation; its program answers the minimum in both cases.

use jiff::Timestamp;

use super::Window;

/// The answer for a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronReplicas {
    /// The least it may have.
    pub min: i32,
    /// What it has now, where windows are all that scales it.
    pub kept: Option<i32>,
}

/// How many replicas the windows ask for now.
pub fn cron_replicas(windows: &[Window], workload: CronReplicas, now: Timestamp) -> i32 {
    let open = windows
        .iter()
        .filter(|window| window.is_open(now))
        .map(|window| window.target_replicas)
        .max();
    match (open, workload.kept) {
        (Some(target), _) => target.max(workload.min),
        (None, Some(kept)) => kept,
        (None, None) => workload.min,
    }
}
