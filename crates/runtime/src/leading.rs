//! A term of leadership.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::lease;

/// A term of leadership. Clones share it.
#[derive(Debug, Clone)]
pub struct Leading {
    lost: CancellationToken,
    term: u64,
    /// The renew deadline; `None` without leader election.
    until: Arc<Mutex<Option<Instant>>>,
}

impl Leading {
    pub(crate) fn new(term: u64, until: Option<Instant>) -> Self {
        Self {
            lost: CancellationToken::new(),
            term,
            until: Arc::new(Mutex::new(until)),
        }
    }

    /// A term without an end that starts at `now`, for `--leader-elect=false`.
    pub fn alone(now: Timestamp) -> Self {
        Self::new(lease::term(now, 0), None)
    }

    /// The number of the term. It increases with each term, across candidates.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Cancelled when the term ends, before another candidate can start its own.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Whether the term lasts at `now`. Check it before each write: a process that was suspended
    /// runs its next line before any timer.
    pub fn holds(&self, now: Instant) -> bool {
        let until = *self.until.lock();
        !self.lost.is_cancelled() && until.is_none_or(|until| now < until)
    }

    pub(crate) fn end(&self) {
        self.lost.cancel();
    }

    pub(crate) fn extend(&self, until: Instant) {
        *self.until.lock() = Some(until);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_term_ends_at_its_deadline_before_it_is_cancelled() {
        let start = Instant::now();
        let leading = Leading::new(1, Some(start + Duration::from_secs(10)));
        let after = |seconds| leading.holds(start + Duration::from_secs(seconds));
        assert!(after(9) && !after(10));
        leading.extend(start + Duration::from_secs(12));
        assert!(after(11));
        leading.end();
        assert!(!after(11));
    }
}
