//! Exponential backoff after refused actions, by pod.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::ClockReading;

/// The first backoff. Each further one is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// The longest backoff, unless the API server asks for a longer one.
const LONGEST: Duration = Duration::from_mins(1);
/// The longest `Retry-After` of the API server that is respected.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(10);

/// The backoffs of pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backoffs(HashMap<String, Backoff>);

#[derive(Debug, Clone, Copy)]
struct Backoff {
    until: Duration,
    failures: u32,
}

impl Backoffs {
    /// Begins the next backoff of a pod, of at least `at_least`.
    pub(super) fn extend(&mut self, uid: &str, at_least: Option<Duration>, now: ClockReading) {
        let failures = self.0.get(uid).map_or(0, |backoff| backoff.failures);
        let length = FIRST
            .saturating_mul(1 << failures.min(10))
            .min(LONGEST)
            .max(at_least.unwrap_or_default().min(LONGEST_RETRY_AFTER));
        let backoff = Backoff {
            until: now.monotonic.saturating_add(length),
            failures: failures.saturating_add(1),
        };
        self.0.insert(uid.to_owned(), backoff);
    }

    /// The rest of a pod's backoff.
    pub(crate) fn left(&self, uid: &str, now: ClockReading) -> Option<Duration> {
        let left = self.0.get(uid)?.until.checked_sub(now.monotonic)?;
        (!left.is_zero()).then_some(left)
    }

    pub(super) fn remove(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}
