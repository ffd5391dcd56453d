//! Backoff of failed writes: one second, doubled by each failure, up to five minutes. Time is an
//! argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use view::ObjectKey;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(5);

/// Objects that could not be written.
#[derive(Debug, Default)]
pub(super) struct Attempts(BTreeMap<ObjectKey, Attempt>);

#[derive(Debug)]
struct Attempt {
    failures: u32,
    next: Instant,
    problem: String,
}

impl Attempts {
    /// Whether an object may be written now.
    pub(super) fn is_due(&self, key: &ObjectKey, now: Instant) -> bool {
        self.0.get(key).is_none_or(|attempt| attempt.next <= now)
    }

    /// It could not be written. `chance`, from 0 to 1, takes away up to half of the waiting time.
    pub(super) fn failed(&mut self, key: ObjectKey, problem: String, now: Instant, chance: f64) {
        let failures = self.0.get(&key).map_or(0, |attempt| attempt.failures);
        let wait = FIRST
            .saturating_mul(2_u32.saturating_pow(failures))
            .min(LONGEST);
        let next = now + wait.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0);
        self.0.insert(
            key,
            Attempt {
                failures: failures.saturating_add(1),
                next,
                problem,
            },
        );
    }

    /// It was written.
    pub(super) fn succeeded(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// Forgets objects that are no longer to be written.
    pub(super) fn keep_only(&mut self, keys: &BTreeSet<&ObjectKey>) {
        self.0.retain(|key, _| keys.contains(key));
    }

    /// The error of the last attempt.
    pub(super) fn problem(&self, key: &ObjectKey) -> Option<&str> {
        self.0.get(key).map(|attempt| attempt.problem.as_str())
    }

    /// The time at which the next object may be written again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().map(|attempt| attempt.next).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_doubles_up_to_a_limit_and_ends_with_success() {
        let (key, now) = (ObjectKey::new("shop", "web"), Instant::now());
        let mut attempts = Attempts::default();
        for (attempt, seconds) in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (40, 300)] {
            while attempts.0.get(&key).map_or(0, |known| known.failures) < attempt {
                attempts.failed(key.clone(), "no".to_owned(), now, 0.0);
            }
            let after = |milliseconds| now + Duration::from_millis(milliseconds);
            let wait = seconds * 1000;
            assert_eq!(attempts.next(), Some(after(wait)), "after {attempt}");
            assert!(attempts.is_due(&key, after(wait)) && !attempts.is_due(&key, after(wait - 1)));
        }
        assert_eq!(attempts.problem(&key), Some("no"));
        attempts.succeeded(&key);
        assert!(attempts.is_due(&key, now) && attempts.next().is_none());
    }

    #[test]
    fn attempts_of_unplanned_writes_are_forgotten() {
        let (kept, gone, now) = (
            ObjectKey::new("a", "a"),
            ObjectKey::new("a", "b"),
            Instant::now(),
        );
        let mut attempts = Attempts::default();
        for key in [&kept, &gone] {
            attempts.failed(key.clone(), String::new(), now, 1.0);
        }
        attempts.keep_only(&[&kept].into());
        assert!(!attempts.is_due(&kept, now) && attempts.is_due(&gone, now));
        assert_eq!(attempts.next(), Some(now + Duration::from_millis(500)));
    }
}
