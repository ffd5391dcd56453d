//! A circuit breaker: after several failures in a row nothing is asked for a while, then one
//! question tries whether that is over. Time is an argument.

use std::time::{Duration, Instant};

use delegated_auth::coalescing_cache::Key;

/// Failures in a row.
const FAILURE_THRESHOLD: u32 = 5;
/// How long nothing is asked.
const OPEN_FOR: Duration = Duration::from_secs(5);

/// One breaker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CircuitBreaker {
    failures: u32,
    /// The namespaces among them whose answers did not come in time.
    late: Vec<Key>,
    open_until: Option<Instant>,
    is_probing: bool,
}

impl CircuitBreaker {
    /// Whether to ask. Whoever does must say how it went.
    pub(super) fn allows_request(&mut self, now: Instant) -> bool {
        match self.open_until {
            None => true,
            Some(until) if now < until || self.is_probing => false,
            Some(_) => {
                self.is_probing = true;
                true
            }
        }
    }

    /// There was an answer.
    pub(super) fn record_success(&mut self) {
        *self = Self::default();
    }

    /// There was none. `late`: the namespace of a question whose answer did not come in time. A
    /// namespace counts once in a row, so that one tenant's slow questions cannot open the breaker
    /// for others.
    pub(super) fn record_failure(&mut self, now: Instant, late: Option<Key>) {
        if late.is_none_or(|question| !self.late.contains(&question)) {
            self.failures = self.failures.saturating_add(1);
            self.late
                .extend(late.filter(|_| self.failures <= FAILURE_THRESHOLD));
        }
        if self.is_probing || self.failures >= FAILURE_THRESHOLD {
            self.open_until = Some(now + OPEN_FOR);
        }
        self.is_probing = false;
    }

    /// Whether nothing is asked.
    pub(super) fn is_open(&self) -> bool {
        self.open_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_failures_in_a_row_it_rests_and_then_one_question_tries() {
        let (mut breaker, start) = (CircuitBreaker::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for _ in 0..FAILURE_THRESHOLD - 1 {
            breaker.record_failure(at(0), None);
        }
        assert!(breaker.allows_request(at(0)));
        breaker.record_failure(at(0), None);
        assert!(
            !breaker.allows_request(at(0)) && !breaker.allows_request(at(4)) && breaker.is_open()
        );
        assert_eq!(
            (breaker.allows_request(at(5)), breaker.allows_request(at(5))),
            (true, false),
            "one tries"
        );
        breaker.record_failure(at(6), None);
        assert!(!breaker.allows_request(at(10)));
        assert!(breaker.allows_request(at(11)));
        breaker.record_success();
        assert!(breaker.allows_request(at(11)) && !breaker.is_open());
    }

    #[test]
    fn an_answer_between_failures_keeps_it_closed() {
        let (mut breaker, now) = (CircuitBreaker::default(), Instant::now());
        for _ in 0..10 * FAILURE_THRESHOLD {
            breaker.record_failure(now, None);
            breaker.record_failure(now, None);
            breaker.record_success();
        }
        assert!(breaker.allows_request(now));
    }

    #[test]
    fn questions_that_are_always_late_count_once_each() {
        let (mut breaker, start) = (CircuitBreaker::default(), Instant::now());
        let question = |number: u8| Some([number; 32]);
        for number in (0..4).cycle().take(100) {
            breaker.record_failure(start, question(number));
        }
        assert!(breaker.allows_request(start) && !breaker.is_open());
        breaker.record_failure(start, question(4));
        assert!(!breaker.allows_request(start));
        assert!(breaker.allows_request(start + OPEN_FOR));
        breaker.record_failure(start + OPEN_FOR, question(0));
        assert!(
            !breaker.allows_request(start + OPEN_FOR),
            "the one that tries tries for all"
        );
    }
}
