//! A circuit breaker: it opens after several failures in a row. After a pause, one request probes
//! the provider. Time is an argument.

use std::time::{Duration, Instant};

use delegated_auth::coalescing_cache::Key;

const FAILURE_THRESHOLD: u32 = 5;
/// The pause before a probe.
const OPEN_FOR: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CircuitBreaker {
    failures: u32,
    late: Vec<Key>,
    open_until: Option<Instant>,
    is_probing: bool,
}

impl CircuitBreaker {
    /// Whether a request may be sent. Its result must be recorded.
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

    pub(super) fn record_success(&mut self) {
        *self = Self::default();
    }

    /// Records a failure. `late`: the namespace of a request that timed out. A namespace counts
    /// once in a row, so that slow requests of one tenant cannot open the circuit for others.
    pub(super) fn record_failure(&mut self, now: Instant, late: Option<Key>) {
        if late.is_none_or(|namespace| !self.late.contains(&namespace)) {
            self.failures = self.failures.saturating_add(1);
            self.late
                .extend(late.filter(|_| self.failures <= FAILURE_THRESHOLD));
        }
        if self.is_probing || self.failures >= FAILURE_THRESHOLD {
            self.open_until = Some(now + OPEN_FOR);
        }
        self.is_probing = false;
    }

    pub(super) fn is_open(&self) -> bool {
        self.open_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_the_circuit_until_a_probe_succeeds() {
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
    fn a_success_between_failures_keeps_the_circuit_closed() {
        let (mut breaker, now) = (CircuitBreaker::default(), Instant::now());
        for _ in 0..10 * FAILURE_THRESHOLD {
            breaker.record_failure(now, None);
            breaker.record_failure(now, None);
            breaker.record_success();
        }
        assert!(breaker.allows_request(now));
    }

    #[test]
    fn timeouts_of_a_namespace_count_once() {
        let (mut breaker, start) = (CircuitBreaker::default(), Instant::now());
        let namespace = |number: u8| Some([number; 32]);
        for number in (0..4).cycle().take(100) {
            breaker.record_failure(start, namespace(number));
        }
        assert!(breaker.allows_request(start) && !breaker.is_open());
        breaker.record_failure(start, namespace(4));
        assert!(!breaker.allows_request(start));
        assert!(breaker.allows_request(start + OPEN_FOR));
        breaker.record_failure(start + OPEN_FOR, namespace(0));
        assert!(
            !breaker.allows_request(start + OPEN_FOR),
            "the one that tries tries for all"
        );
    }
}
