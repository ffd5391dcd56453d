//! Progress of the backfill: which history was fetched and which is missing.
//!
//! History is fetched by namespace. With `--memory-saver`, only selected pods are recorded, so it is
//! fetched by selector: pods that a later object selects have their history fetched then, up to the
//! time from which they are recorded.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use model::Selector;

/// Missing history of a namespace, or of the pods of a selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HistoryGap {
    /// The namespace of the pods.
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
    /// The end of the history to fetch at `now`.
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

    /// The start of the recording.
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

    /// Records a failed attempt.
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

#[cfg(test)]
mod tests {
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
}
