//! A circuit breaker: after several failures in a row nothing is asked for a while, then one
//! question tries whether that is over. Time is an argument.

use std::time::{Duration, Instant};

use delegated_auth::coalescing_cache::Key;

/// Failures in a row.
const FAILURES: u32 = 5;
/// How long nothing is asked.
const REST: Duration = Duration::from_secs(5);

/// One breaker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Breaker {
    failures: u32,
    /// The namespaces among them whose answers did not come in time.
    late: Vec<Key>,
    rests_until: Option<Instant>,
    is_trying: bool,
}

impl Breaker {
    /// Whether to ask. Whoever does must say how it went.
    pub(super) fn may_ask(&mut self, now: Instant) -> bool {
        match self.rests_until {
            None => true,
            Some(until) if now < until || self.is_trying => false,
            Some(_) => {
                self.is_trying = true;
                true
            }
        }
    }

    /// There was an answer.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// There was none. `late`: the namespace of a question whose answer did not come in time. A
    /// namespace counts once in a row, so that one tenant's slow questions cannot open the breaker
    /// for others.
    pub(super) fn failed(&mut self, now: Instant, late: Option<Key>) {
        if late.is_none_or(|question| !self.late.contains(&question)) {
            self.failures = self.failures.saturating_add(1);
            self.late.extend(late.filter(|_| self.failures <= FAILURES));
        }
        if self.is_trying || self.failures >= FAILURES {
            self.rests_until = Some(now + REST);
        }
        self.is_trying = false;
    }

    /// Whether nothing is asked.
    pub(super) fn is_open(&self) -> bool {
        self.rests_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_failures_in_a_row_it_rests_and_then_one_question_tries() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for _ in 0..FAILURES - 1 {
            breaker.failed(at(0), None);
        }
        assert!(breaker.may_ask(at(0)));
        breaker.failed(at(0), None);
        assert!(!breaker.may_ask(at(0)) && !breaker.may_ask(at(4)) && breaker.is_open());
        assert_eq!(
            (breaker.may_ask(at(5)), breaker.may_ask(at(5))),
            (true, false),
            "one tries"
        );
        breaker.failed(at(6), None);
        assert!(!breaker.may_ask(at(10)));
        assert!(breaker.may_ask(at(11)));
        breaker.succeeded();
        assert!(breaker.may_ask(at(11)) && !breaker.is_open());
    }

    #[test]
    fn an_answer_between_failures_keeps_it_closed() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..10 * FAILURES {
            breaker.failed(now, None);
            breaker.failed(now, None);
            breaker.succeeded();
        }
        assert!(breaker.may_ask(now));
    }

    #[test]
    fn questions_that_are_always_late_count_once_each() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        let question = |number: u8| Some([number; 32]);
        for number in (0..4).cycle().take(100) {
            breaker.failed(start, question(number));
        }
        assert!(breaker.may_ask(start) && !breaker.is_open());
        breaker.failed(start, question(4));
        assert!(!breaker.may_ask(start));
        assert!(breaker.may_ask(start + REST));
        breaker.failed(start + REST, question(0));
        assert!(
            !breaker.may_ask(start + REST),
            "the one that tries tries for all"
        );
    }
}
