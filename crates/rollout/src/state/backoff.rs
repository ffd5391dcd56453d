//! Exponential backoff of a pod after refused actions.

use std::time::Duration;

use crate::clock::ClockReading;

/// The first backoff. Each further one is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// The longest backoff, unless the API server asks for a longer one.
const LONGEST: Duration = Duration::from_mins(1);
/// The longest `Retry-After` of the API server that is respected.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Backoff {
    pub(super) until: Duration,
    failures: u32,
}

/// A pause of `first` after `times` doublings, at most `longest`.
pub(super) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << times.min(10)).min(longest)
}

impl Backoff {
    /// Begins the next backoff, of at least `at_least`.
    pub(super) fn extend(&mut self, at_least: Option<Duration>, now: ClockReading) {
        let at_least = at_least.unwrap_or_default().min(LONGEST_RETRY_AFTER);
        let length = doubled(FIRST, self.failures, LONGEST).max(at_least);
        self.until = now.monotonic.saturating_add(length);
        self.failures = self.failures.saturating_add(1);
    }
}
