//! Pauses of evictions while the API server does not call the webhook: replacements would come back
//! with the requests of their template.
//!
//! One call may be lost, as the webhook restarts, or all, as a firewall has it. So the pause after the
//! newest pod that was not reviewed is as long as such pods have been created for.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use view::ObjectKey;

use crate::clock::ClockReading;

const SHORTEST_PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// The pods that the webhook did not review, by VPA object.
#[derive(Debug, Clone, Default)]
pub(crate) struct MissedReviews(pub(super) HashMap<ObjectKey, Missed>);

#[derive(Debug, Clone)]
pub(super) struct Missed {
    /// Creation of the first such pod since one was reviewed.
    first: Timestamp,
    /// Creation of the newest pod, if it is such a pod.
    newest: Option<Timestamp>,
}

impl MissedReviews {
    /// Takes in the creation of the newest pod, and whether it was reviewed; `None` if no pod tells.
    pub(crate) fn observe(&mut self, vpa: &ObjectKey, newest: Option<(Timestamp, bool)>) {
        if matches!(newest, Some((_, true))) {
            self.0.remove(vpa);
            return;
        }
        // Without a pod: the only one may have been evicted.
        let newest = newest.map(|(created, _)| created);
        if let Some(missed) = self.0.get_mut(vpa) {
            missed.newest = newest;
        } else if let Some(first) = newest {
            self.0.insert(vpa.clone(), Missed { first, newest });
        }
    }

    pub(crate) fn pause_left(&self, vpa: &ObjectKey, now: ClockReading) -> Option<Duration> {
        let Missed { first, newest } = self.0.get(vpa)?;
        let newest = (*newest)?;
        let missed_for = Duration::try_from(newest.duration_since(*first)).unwrap_or_default();
        now.until(newest, missed_for.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
    }
}
