//! One pass over the gaps of the backfill: their order, and the failures that end it.
//!
//! A failing namespace must not delay others: new namespaces come first, then those with the fewest
//! failures.

use std::collections::{HashMap, HashSet};
use std::time::Duration;
use std::vec;

use super::HistoryGap;

/// Maximum number of failures in a round: the store may be the cause.
const MAX_FAILURES: usize = 10;
/// Maximum total time of the failures in a round. The failure that exceeds it is the last.
const MAX_FAILED_TIME: Duration = Duration::from_mins(2);

#[derive(Debug, Default)]
pub struct FetchFailures(HashMap<HistoryGap, u32>);

/// Round in which each gap is fetched once, until failures are too many or take too long.
#[derive(Debug)]
pub struct FetchRound<'a> {
    failures: &'a mut FetchFailures,
    waiting: vec::IntoIter<HistoryGap>,
    failed: usize,
    failed_time: Duration,
}

impl FetchFailures {
    /// Begins a round over these gaps. Forgets the failures of all others.
    pub fn begin(&mut self, mut gaps: Vec<HistoryGap>) -> FetchRound<'_> {
        let missing: HashSet<&HistoryGap> = gaps.iter().collect();
        self.0.retain(|gap, _| missing.contains(gap));
        gaps.sort_by_cached_key(|gap| {
            (self.0.get(gap).copied().unwrap_or(0), gap.namespace.clone())
        });
        FetchRound {
            failures: self,
            waiting: gaps.into_iter(),
            failed: 0,
            failed_time: Duration::ZERO,
        }
    }
}

impl FetchRound<'_> {
    /// The next gap to fetch; `None` at the end of the round.
    pub fn next_gap(&mut self) -> Option<HistoryGap> {
        let is_over = self.failed >= MAX_FAILURES || self.failed_time >= MAX_FAILED_TIME;
        if is_over { None } else { self.waiting.next() }
    }

    /// Records a failure and its duration.
    pub fn failed(&mut self, gap: HistoryGap, took: Duration) {
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

    fn gap(namespace: &str) -> HistoryGap {
        HistoryGap {
            namespace: namespace.to_owned(),
            selector: None,
            end: Timestamp::UNIX_EPOCH,
            methods: false,
        }
    }

    /// Pieces of failing namespaces, and `shop` after them.
    fn gaps(failing: usize) -> Vec<HistoryGap> {
        let failing = (0..failing).map(|number| gap(&format!("bad-{number:03}")));
        failing.chain([gap("shop")]).collect()
    }

    /// The namespaces that are asked for in one round; those called `bad` fail after some time.
    fn round(failures: &mut FetchFailures, gaps: Vec<HistoryGap>, takes: Duration) -> Vec<String> {
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
        let mut failures = FetchFailures::default();
        (1..=20).find(|_| {
            let asked = round(&mut failures, gaps(failing), takes);
            let is_shop = |namespace: &&String| *namespace == "shop";
            let fetched = asked.iter().filter(is_shop).count();
            let failed = asked.len() - fetched;
            let failed_time = takes * u32::try_from(failed).unwrap();
            assert!(failed <= MAX_FAILURES);
            assert!(failed_time < MAX_FAILED_TIME + takes.max(Duration::from_nanos(1)));
            fetched > 0
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
        let mut failures = FetchFailures::default();
        let old = ["bad-1", "bad-2"].map(gap).to_vec();
        round(&mut failures, old.clone(), Duration::ZERO);
        let all = [old, vec![gap("new")]].concat();
        let asked = round(&mut failures, all, Duration::ZERO);
        assert_eq!(asked, ["new", "bad-1", "bad-2"]);
    }

    #[test]
    fn failures_of_history_that_is_not_missing_any_more_are_forgotten() {
        let mut failures = FetchFailures::default();
        round(&mut failures, gaps(5), Duration::ZERO);
        round(&mut failures, vec![gap("bad-001")], Duration::ZERO);
        assert_eq!(failures.0, HashMap::from([(gap("bad-001"), 2)]));
    }
}
