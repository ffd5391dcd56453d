//! Progress of the backfill: which history was fetched and which is missing; one pass over the gaps, in
//! their order, and the failures that end it.
//!
//! History is fetched by namespace. With `--memory-saver`, only selected pods are recorded, so it is
//! fetched by selector: pods that a later object selects have their history fetched then, up to the
//! time from which they are recorded. A failing namespace must not delay others: new namespaces come
//! first, then those with the fewest failures.

use std::collections::{HashMap, HashSet};
use std::time::Duration;
use std::vec;

use jiff::Timestamp;
use model::Selector;

/// Missing history of a namespace, or of the pods of a selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HistoryGap {
    pub namespace: String,
    /// The selector of the pods; `None` for the whole namespace.
    pub selector: Option<Selector>,
    /// End of the gap: usage is recorded since then.
    pub end: Timestamp,
    /// Whether the histories of sizing methods other than the VPA's are missing. They are rebuilt
    /// until the time of the fetch.
    pub methods: bool,
}

impl HistoryGap {
    pub fn fetch_until(&self, now: Timestamp) -> Timestamp {
        if self.methods { now } else { self.end }
    }
}

/// A namespace, with the selector if only selected pods are recorded.
type Piece = (String, Option<Selector>);

#[derive(Debug)]
pub(crate) struct BackfillProgress {
    started: Timestamp,
    by_selector: bool,
    /// Start of the recording, where that is later than the start of the process.
    recorded_since: HashMap<Piece, Timestamp>,
    done: HashSet<Piece>,
    problem: Option<String>,
}

impl BackfillProgress {
    /// Usage is recorded from `started` on.
    pub(crate) fn new(started: Timestamp, by_selector: bool) -> Self {
        Self {
            started,
            by_selector,
            recorded_since: HashMap::new(),
            done: HashSet::new(),
            problem: None,
        }
    }

    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    /// Whether history of these pods is missing.
    pub(crate) fn is_missing(&self, namespace: &str, selector: &Selector) -> bool {
        !self.done.contains(&self.piece(namespace, selector))
    }

    /// The missing history of an object at `now`.
    pub(crate) fn gap(
        &mut self,
        namespace: &str,
        selector: &Selector,
        now: Timestamp,
    ) -> Option<HistoryGap> {
        let piece = self.piece(namespace, selector);
        if self.done.contains(&piece) {
            return None;
        }
        let first = if self.by_selector { now } else { self.started };
        let end = *self.recorded_since.entry(piece.clone()).or_insert(first);
        Some(HistoryGap {
            namespace: piece.0,
            selector: piece.1,
            end,
            methods: false,
        })
    }

    /// The missing histories of sizing methods other than the VPA's in a namespace.
    pub(crate) fn methods_gap(&self, namespace: &str) -> HistoryGap {
        HistoryGap {
            namespace: namespace.to_owned(),
            selector: None,
            end: self.started,
            methods: true,
        }
    }

    /// Selectors of the gap's namespace whose history was fetched.
    pub(crate) fn known(&self, gap: &HistoryGap) -> Vec<Selector> {
        let same = self
            .done
            .iter()
            .filter(|(namespace, _)| *namespace == gap.namespace);
        same.filter_map(|(_, selector)| selector.clone()).collect()
    }

    /// Marks a gap as fetched.
    pub(crate) fn filled(&mut self, gap: &HistoryGap) {
        self.problem = None;
        if gap.methods {
            return;
        }
        let piece = (gap.namespace.clone(), gap.selector.clone());
        self.recorded_since.remove(&piece);
        self.done.insert(piece);
    }

    pub(crate) fn failed(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// The error of the last attempt, if it failed.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn piece(&self, namespace: &str, selector: &Selector) -> Piece {
        (
            namespace.to_owned(),
            self.by_selector.then(|| selector.clone()),
        )
    }
}

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
    use crate::fixture::at;

    fn app(name: &str) -> Selector {
        Selector::match_labels([("app", name)])
    }

    #[test]
    fn a_namespace_is_fetched_once_up_to_the_start() {
        let mut progress = BackfillProgress::new(at(100), false);
        let gap = progress.gap("shop", &app("web"), at(200)).expect("missing");
        assert_eq!((gap.namespace.as_str(), &gap.selector), ("shop", &None));
        assert_eq!(gap.end, at(100));
        progress.filled(&gap);
        assert_eq!(progress.gap("shop", &app("other"), at(300)), None);
        assert!(!progress.is_missing("shop", &app("other")));
        assert!(progress.is_missing("bank", &app("web")));
    }

    #[test]
    fn with_a_memory_saver_each_selector_is_fetched_up_to_when_it_was_first_seen() {
        let mut progress = BackfillProgress::new(at(100), true);
        assert!(progress.gap("shop", &app("web"), at(200)).is_some());
        let gap = progress.gap("shop", &app("web"), at(300)).expect("missing");
        assert_eq!((gap.end, &gap.selector), (at(200), &Some(app("web"))));
        progress.filled(&gap);
        let other = progress.gap("shop", &app("other"), at(400));
        let other = other.expect("missing");
        assert_eq!(
            (other.end, progress.known(&other)),
            (at(400), vec![app("web")])
        );
    }

    #[test]
    fn a_failure_is_told_until_something_succeeds() {
        let mut progress = BackfillProgress::new(at(100), false);
        let gap = progress.gap("shop", &app("web"), at(200)).expect("missing");
        progress.failed("no answer".to_owned());
        assert_eq!(progress.problem(), Some("no answer"));
        progress.filled(&gap);
        assert_eq!(progress.problem(), None);
    }

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
