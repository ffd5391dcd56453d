//! The part of the state that is older than this process: which history is still to come from a
//! store, and its arrival.

use std::collections::HashSet;
use std::sync::Arc;

use crate::ClusterState;
use jiff::Timestamp;
use model::Selector;
use view::ObjectKey;

use super::{RecommenderState, selectors, spec};
use crate::history::{Gap, Ledger, Scene};
use crate::status::History;

impl RecommenderState {
    /// From now on, until the history of its pods has come, an object's recommendation stays. Usage
    /// is recorded since `started`.
    pub fn await_history(&mut self, started: Timestamp) {
        self.history = Some(Ledger::new(started, self.config.memory_saver));
    }

    /// The history that objects need and that has not come yet.
    pub fn missing_history(&mut self, now: Timestamp) -> Vec<Gap> {
        let Some(history) = &mut self.history else {
            return Vec::new();
        };
        let known = selectors(&self.autoscalers).filter(|(_, selector)| !selector.is_nothing());
        let gaps: HashSet<Gap> = known
            .filter_map(|(namespace, selector)| history.gap(namespace, selector, now))
            .collect();
        gaps.into_iter().collect()
    }

    /// What matters for rebuilding the history that is missing.
    pub fn scene(&self, gap: &Gap) -> Scene {
        let own = |key: &ObjectKey| key.namespace == gap.namespace;
        let autoscalers = self.autoscalers.iter().filter(|(key, _)| own(key));
        let pods = self.pods.iter().filter(|(key, _)| own(key));
        Scene {
            cluster: self.cluster.empty_copy(),
            autoscalers: autoscalers
                // Other ways of sizing keep no past, so the VPA's alone is rebuilt.
                .map(|(key, tracked)| {
                    (
                        key.clone(),
                        spec(&tracked.autoscaler, &tracked.target, None),
                    )
                })
                .collect(),
            pods: pods.map(|(_, pod)| Arc::clone(pod)).collect(),
            wanted: gap.selector.clone(),
            native_sidecars: self.config.native_sidecars,
            known: self
                .history
                .as_ref()
                .map(|history| history.known(gap))
                .unwrap_or_default(),
        }
    }

    /// The history that was missing, as a recommender would know it that had run all the time.
    pub fn add_history(&mut self, gap: &Gap, earlier: &ClusterState, now: Timestamp) {
        self.cluster.prepend_history(earlier, now);
        self.no_history(gap);
    }

    /// There is no history before usage was recorded here.
    pub fn no_history(&mut self, gap: &Gap) {
        if let Some(history) = &mut self.history {
            history.filled(gap);
        }
    }

    /// The last attempt to fetch history failed.
    pub fn history_failed(&mut self, problem: String) {
        if let Some(history) = &mut self.history {
            history.failed(problem);
        }
    }

    /// Whether history of these pods is still to come. Usage of a whole confidence interval makes
    /// up for it.
    pub(super) fn history_of(
        &self,
        namespace: &str,
        selector: &Selector,
        now: Timestamp,
    ) -> History<'_> {
        match &self.history {
            Some(history) if !selector.is_nothing() && history.is_missing(namespace, selector) => {
                let age = self
                    .clock
                    .at_most(now)
                    .duration_since(history.started())
                    .as_nanos();
                let suffices = age >= i128::from(self.cluster.config().cpu_confidence_interval_ns);
                History::Missing {
                    problem: history.problem(),
                    keeps_recommendation: !suffices,
                }
            }
            _ => History::Known,
        }
    }
}
