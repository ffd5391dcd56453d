//! One round over the history that is missing: in which order it is fetched, and when failures end
//! the round.
//!
//! A namespace that fails must not keep others waiting. Those that failed least often come first,
//! and new ones before all others.

use std::collections::{HashMap, HashSet};
use std::time::Duration;
use std::vec;

use super::Gap;

/// The failures after which a round ends: the store may be the reason.
const MAX_FAILURES: usize = 10;
/// The time that the failures of one round may take together, before the one that exceeds it.
const MAX_FAILED_TIME: Duration = Duration::from_mins(2);

/// How often each piece of history could not be fetched.
#[derive(Debug, Default)]
pub struct Failures(HashMap<Gap, u32>);

/// A round in which each piece is fetched once, until there are too many failures or they have
/// taken too long.
#[derive(Debug)]
pub struct Round<'a> {
    failures: &'a mut Failures,
    waiting: vec::IntoIter<Gap>,
    failed: usize,
    failed_time: Duration,
}

impl Failures {
    /// Begins a round over these pieces. Failures of others are forgotten.
    pub fn begin(&mut self, mut gaps: Vec<Gap>) -> Round<'_> {
        let missing: HashSet<&Gap> = gaps.iter().collect();
        self.0.retain(|gap, _| missing.contains(gap));
        gaps.sort_by_cached_key(|gap| {
            (self.0.get(gap).copied().unwrap_or(0), gap.namespace.clone())
        });
        Round {
            failures: self,
            waiting: gaps.into_iter(),
            failed: 0,
            failed_time: Duration::ZERO,
        }
    }
}

impl Round<'_> {
    /// The next piece to fetch, unless the round is over.
    pub fn next_gap(&mut self) -> Option<Gap> {
        let is_over = self.failed >= MAX_FAILURES || self.failed_time >= MAX_FAILED_TIME;
        if is_over { None } else { self.waiting.next() }
    }

    /// A piece could not be fetched, which took this long.
    pub fn failed(&mut self, gap: Gap, took: Duration) {
        self.failed += 1;
        self.failed_time = self.failed_time.saturating_add(took);
        let count = self.failures.0.entry(gap).or_default();
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn gap(namespace: &str) -> Gap {
        Gap {
            namespace: namespace.to_owned(),
            selector: None,
            end: Timestamp::UNIX_EPOCH,
        }
    }

    /// Pieces of failing namespaces, and `shop` after them.
    fn gaps(failing: usize) -> Vec<Gap> {
        let failing = (0..failing).map(|number| gap(&format!("bad-{number:03}")));
        failing.chain([gap("shop")]).collect()
    }

    /// The namespaces that are asked for in one round; those called `bad` fail after some time.
    fn round(failures: &mut Failures, gaps: Vec<Gap>, takes: Duration) -> Vec<String> {
        let (mut round, mut asked) = (failures.begin(gaps), Vec::new());
        while let Some(gap) = round.next_gap() {
            asked.push(gap.namespace.clone());
            if gap.namespace.starts_with("bad") {
                round.failed(gap, takes);
            }
        }
        asked
    }

    /// The number of the round in which `shop` is fetched; none in the first twenty.
    fn rounds_until_fetched(failing: usize, takes: Duration) -> Option<usize> {
        let mut failures = Failures::default();
        (1..=20).find(|_| {
            let asked = round(&mut failures, gaps(failing), takes);
            let failed = asked
                .iter()
                .filter(|namespace| *namespace != "shop")
                .count();
            assert!(
                failed <= MAX_FAILURES
                    && takes * u32::try_from(failed).unwrap()
                        < MAX_FAILED_TIME + takes.max(Duration::from_nanos(1))
            );
            asked.iter().any(|namespace| namespace == "shop")
        })
    }

    #[test]
    fn namespaces_that_fail_do_not_starve_others() {
        assert_eq!(rounds_until_fetched(2, Duration::ZERO), Some(1));
        assert_eq!(rounds_until_fetched(3, Duration::ZERO), Some(1));
        assert_eq!(rounds_until_fetched(100, Duration::ZERO), Some(11));
        assert_eq!(rounds_until_fetched(6, Duration::from_secs(65)), Some(4));
    }

    #[test]
    fn a_namespace_that_is_new_comes_before_those_that_failed() {
        let mut failures = Failures::default();
        let old = ["bad-1", "bad-2"].map(gap).to_vec();
        round(&mut failures, old.clone(), Duration::ZERO);
        let asked = round(
            &mut failures,
            [old, vec![gap("new")]].concat(),
            Duration::ZERO,
        );
        assert_eq!(asked, ["new", "bad-1", "bad-2"]);
    }

    #[test]
    fn failures_of_history_that_is_not_missing_any_more_are_forgotten() {
        let mut failures = Failures::default();
        round(&mut failures, gaps(5), Duration::ZERO);
        round(&mut failures, vec![gap("bad-001")], Duration::ZERO);
        assert_eq!(failures.0, HashMap::from([(gap("bad-001"), 2)]));
    }
}
