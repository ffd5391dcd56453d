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

impl Backoff {
    /// Begins the next backoff, of at least `at_least`.
    pub(super) fn extend(&mut self, at_least: Option<Duration>, now: ClockReading) {
        let length = FIRST
            .saturating_mul(1 << self.failures.min(10))
            .min(LONGEST)
            .max(at_least.unwrap_or_default().min(LONGEST_RETRY_AFTER));
        self.until = now.monotonic.saturating_add(length);
        self.failures = self.failures.saturating_add(1);
    }
}
