//! When a decision is made, by two clocks.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Now. What the cluster dates is compared with the wall clock; what is waited for here goes by the
/// steady one, which no correction of the wall clock moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub wall: Timestamp,
    /// Time since the program started.
    pub steady: Duration,
}

impl Moment {
    /// The time until `after` has passed since `then` by the wall clock; none where it has.
    pub(super) fn until(&self, then: Timestamp, after: Duration) -> Option<Duration> {
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        let left = then.duration_since(self.wall).saturating_add(after);
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }

    /// How long ago that was by the wall clock; nothing where it lies ahead.
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.wall.duration_since(then).max(SignedDuration::ZERO))
            .unwrap_or_default()
    }
}
