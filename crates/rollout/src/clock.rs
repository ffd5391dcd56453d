//! The time of a decision, by the wall clock and the monotonic clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A reading of both clocks. Times of the cluster's objects are compared with the wall clock, in
/// the API server's time. Backoffs and other waits use the monotonic clock, which no correction of
/// the wall clock moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    pub wall: Timestamp,
    /// The time since the program started.
    pub monotonic: Duration,
}

impl ClockReading {
    /// The time until `after` has passed since `then` by the wall clock; `None` once it has.
    pub(super) fn until(&self, then: Timestamp, after: Duration) -> Option<Duration> {
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        let left = then.duration_since(self.wall).saturating_add(after);
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }

    /// The time until `end` by the monotonic clock; `None` once it has come.
    pub(super) fn left(&self, end: Duration) -> Option<Duration> {
        end.checked_sub(self.monotonic)
            .filter(|left| !left.is_zero())
    }

    /// The time since `then` by the wall clock; zero if `then` lies ahead.
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.wall.duration_since(then).max(SignedDuration::ZERO))
            .unwrap_or_default()
    }
}
