//! History from before this process: what is missing, and its arrival.

use std::collections::HashSet;
use std::sync::Arc;

use crate::{ClusterState, VpaSpec};
use jiff::Timestamp;
use model::Selector;
use view::{ObjectKey, Pod};

use super::{RecommenderState, Tracked, spec};
use crate::backfill::{BackfillProgress, HistoryGap, RebuildInput};
use crate::status::HistoryState;

impl RecommenderState {
    /// Starts a backfill: recommendations stay until the history of their pods has arrived. Usage is
    /// recorded since `started`.
    pub fn await_history(&mut self, started: Timestamp) {
        self.history = Some(BackfillProgress::new(started, self.config.memory_saver));
        self.cluster.await_method_histories();
    }

    /// The history that objects still need.
    pub fn missing_history(&mut self, now: Timestamp) -> Vec<HistoryGap> {
        let Some(history) = &mut self.history else {
            return Vec::new();
        };
        let gap = |(key, tracked): (&ObjectKey, &Tracked)| {
            let selector = tracked.selector().filter(|known| !known.is_nothing())?;
            history.gap(&key.namespace, selector, now)
        };
        let mut gaps: HashSet<HistoryGap> = self.vpas.iter().filter_map(gap).collect();
        let methods = self
            .vpas
            .keys()
            .filter(|key| awaited_spec(&self.cluster, key).is_some());
        gaps.extend(methods.map(|key| history.methods_gap(&key.namespace)));
        gaps.into_iter().collect()
    }

    pub fn rebuild_input(&self, gap: &HistoryGap) -> RebuildInput {
        let own = |key: &ObjectKey| key.namespace == gap.namespace;
        let vpas = self.vpas.iter().filter(|(key, _)| own(key));
        let pods = self.cluster.pods().filter(|pod| own(&pod.key));
        let spec_of = |(key, tracked): (&ObjectKey, &Tracked)| {
            let spec = if gap.methods {
                awaited_spec(&self.cluster, key)?.clone()
            } else {
                spec(&tracked.vpa, &tracked.target, None)
            };
            Some((key.clone(), spec))
        };
        let with_labels = |pod: &Arc<Pod>| {
            let labels = self.cluster.labels_of(&pod.key)?;
            Some((Arc::clone(pod), Arc::clone(labels)))
        };
        RebuildInput {
            cluster: self.cluster.empty_copy(),
            vpas: vpas.filter_map(spec_of).collect(),
            methods: gap.methods,
            pods: pods.filter_map(with_labels).collect(),
            wanted: gap.selector.clone(),
            native_sidecars: self.config.native_sidecars,
            known: self
                .history
                .as_ref()
                .filter(|_| !gap.methods)
                .map(|history| history.known(gap))
                .unwrap_or_default(),
        }
    }

    /// Adds the rebuilt history of a gap.
    pub fn add_history(&mut self, gap: &HistoryGap, earlier: &ClusterState, now: Timestamp) {
        if gap.methods {
            self.cluster.prepend_method_histories(earlier);
        } else {
            self.cluster.prepend_history(earlier, now);
        }
        self.no_history(gap);
    }

    /// Closes a gap for which there is no history.
    pub fn no_history(&mut self, gap: &HistoryGap) {
        if let Some(history) = &mut self.history {
            history.filled(gap);
        }
    }

    /// Records a failed attempt to fetch history.
    pub fn history_failed(&mut self, problem: String) {
        if let Some(history) = &mut self.history {
            history.failed(problem);
        }
    }

    /// The state of the history of an object's pods. After a whole confidence interval of usage,
    /// missing history no longer holds back the recommendation.
    pub(super) fn history_of(
        &self,
        key: &ObjectKey,
        selector: &Selector,
        now: Timestamp,
    ) -> HistoryState<'_> {
        match &self.history {
            Some(history)
                if !selector.is_nothing()
                    && (history.is_missing(&key.namespace, selector)
                        || self.cluster.awaits_method_history(key)) =>
            {
                let age = self
                    .clock
                    .at_most(now)
                    .duration_since(history.started())
                    .as_nanos();
                let suffices = age >= i128::from(self.cluster.config().cpu_confidence_interval_ns);
                HistoryState::Missing {
                    problem: history.problem(),
                    keeps_recommendation: !suffices,
                }
            }
            _ => HistoryState::Known,
        }
    }
}

/// The settings of an object whose sizing method awaits its history, once its pods are known.
fn awaited_spec<'a>(cluster: &'a ClusterState, key: &ObjectKey) -> Option<&'a VpaSpec> {
    let spec = cluster.vpa_spec(key)?;
    (!spec.selector.is_nothing() && cluster.awaits_method_history(key)).then_some(spec)
}
