//! Which history has been fetched and which is still missing.
//!
//! One namespace is one piece of history. With `--memory-saver` only pods that objects select are
//! recorded, so there it is one selector: pods that a later object selects have their history
//! fetched then, up to the moment from which they are recorded.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use model::Selector;

/// A piece of history that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gap {
    /// The namespace of the pods.
    pub namespace: String,
    /// The pods it is about; absent for all of the namespace.
    pub selector: Option<Selector>,
    /// Until when; from there on usage is recorded.
    pub end: Timestamp,
}

/// A namespace, and the selector if pods of others are not recorded.
type Piece = (String, Option<Selector>);

/// Which history has been fetched.
#[derive(Debug)]
pub(crate) struct Ledger {
    started: Timestamp,
    by_selector: bool,
    /// Since when pieces are recorded, where that is later than the start.
    recorded_since: HashMap<Piece, Timestamp>,
    done: HashSet<Piece>,
    problem: Option<String>,
}

impl Ledger {
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

    /// When recording began.
    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    /// Whether history of these pods is missing.
    pub(crate) fn is_missing(&self, namespace: &str, selector: &Selector) -> bool {
        !self.done.contains(&self.piece(namespace, selector))
    }

    /// What is missing for an object that is seen now, if anything is.
    pub(crate) fn gap(
        &mut self,
        namespace: &str,
        selector: &Selector,
        now: Timestamp,
    ) -> Option<Gap> {
        let piece = self.piece(namespace, selector);
        if self.done.contains(&piece) {
            return None;
        }
        let first = if self.by_selector { now } else { self.started };
        let end = *self.recorded_since.entry(piece.clone()).or_insert(first);
        Some(Gap {
            namespace: piece.0,
            selector: piece.1,
            end,
        })
    }

    /// The pods whose history is there already, of the gap's namespace.
    pub(crate) fn known(&self, gap: &Gap) -> Vec<Selector> {
        let same = self
            .done
            .iter()
            .filter(|(namespace, _)| *namespace == gap.namespace);
        same.filter_map(|(_, selector)| selector.clone()).collect()
    }

    /// The gap is filled.
    pub(crate) fn filled(&mut self, gap: &Gap) {
        let piece = (gap.namespace.clone(), gap.selector.clone());
        self.recorded_since.remove(&piece);
        self.done.insert(piece);
        self.problem = None;
    }

    /// The last attempt failed.
    pub(crate) fn failed(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// Why the last attempt failed, if it did.
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

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn app(name: &str) -> Selector {
        Selector::match_labels([("app", name)])
    }

    #[test]
    fn a_namespace_is_fetched_once_up_to_the_start() {
        let mut ledger = Ledger::new(at(100), false);
        let gap = ledger.gap("shop", &app("web"), at(200)).expect("missing");
        assert_eq!(
            gap,
            Gap {
                namespace: "shop".to_owned(),
                selector: None,
                end: at(100)
            }
        );
        ledger.filled(&gap);
        assert_eq!(ledger.gap("shop", &app("other"), at(300)), None);
        assert!(
            !ledger.is_missing("shop", &app("other")) && ledger.is_missing("bank", &app("web"))
        );
    }

    #[test]
    fn with_a_memory_saver_each_selector_is_fetched_up_to_when_it_was_first_seen() {
        let mut ledger = Ledger::new(at(100), true);
        assert!(ledger.gap("shop", &app("web"), at(200)).is_some());
        let gap = ledger.gap("shop", &app("web"), at(300)).expect("missing");
        assert_eq!(
            (gap.end, gap.selector.as_ref()),
            (at(200), Some(&app("web")))
        );
        ledger.filled(&gap);
        let other = ledger.gap("shop", &app("other"), at(400)).expect("missing");
        assert_eq!(
            (other.end, ledger.known(&other)),
            (at(400), vec![app("web")])
        );
    }

    #[test]
    fn a_failure_is_told_until_something_succeeds() {
        let mut ledger = Ledger::new(at(100), false);
        let gap = ledger.gap("shop", &app("web"), at(200)).expect("missing");
        ledger.failed("no answer".to_owned());
        assert_eq!(ledger.problem(), Some("no answer"));
        ledger.filled(&gap);
        assert_eq!(ledger.problem(), None);
    }
}
