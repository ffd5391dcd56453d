//! History from before this process: its backfill, and the checkpoints that store it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use api::vpa::{ConditionStatus, FETCHING_HISTORY, VerticalPodAutoscalerCondition};
use jiff::Timestamp;
use model::{Selector, WHOLE_POD};
use sizing::CheckpointError;
use view::{Checkpoint, ObjectKey, Table};

use super::{RecommenderState, Tracked, spec};
use crate::backfill::{BackfillProgress, HistoryGap, PodLabels, Rebuild};
use crate::checkpoint::content::time;
use crate::checkpoint::method_history::{StoredHistoryError, decode, encode};
use crate::status::HistoryState;
use crate::{ClusterState, VpaSpec};

#[derive(Debug, Default, PartialEq)]
pub struct LoadedCheckpoints {
    pub accepted: usize,
    pub refused: Vec<(ObjectKey, CheckpointError)>,
    /// Number of loaded histories of sizing methods other than the VPA's.
    pub histories: usize,
    /// Refused histories of that kind, with the errors. They start anew.
    pub refused_histories: Vec<(ObjectKey, StoredHistoryError)>,
    /// Checkpoints dated in the future, deferred until usage confirms the clock.
    pub deferred: Vec<ObjectKey>,
}

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

    /// Starts the rebuild of a gap's history. `gone` has the stored labels of deleted pods.
    pub fn rebuild(&self, gap: &HistoryGap, gone: PodLabels) -> Rebuild {
        let own = |key: &ObjectKey| key.namespace == gap.namespace;
        let cluster = self.cluster.empty_copy();
        let history = self.history.as_ref().filter(|_| !gap.methods);
        let known = history.map(|history| history.known(gap));
        let sidecars = self.config.native_sidecars;
        let mut rebuild = Rebuild::new(cluster, gap, sidecars, known.unwrap_or_default(), gone);
        for (key, tracked) in self.vpas.iter().filter(|(key, _)| own(key)) {
            let spec = if gap.methods {
                awaited_spec(&self.cluster, key).cloned()
            } else {
                Some(spec(&tracked.vpa, tracked.target.as_ref(), None))
            };
            if let Some(spec) = spec {
                rebuild.add_vpa(key, spec);
            }
        }
        for pod in self.cluster.pods().filter(|pod| own(&pod.key)) {
            if let Some(labels) = self.cluster.labels_of(&pod.key) {
                rebuild.add_pod(pod, labels);
            }
        }
        rebuild
    }

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

    /// Loads the checkpoints of this recommender's objects, each container once, and only history
    /// that was not measured here as well. If the checkpoint of an abandoned container is gone, its
    /// history is dropped. With a backfill nothing is loaded, since that has more history.
    ///
    /// A checkpoint from the future comes from a clock that was ahead, or ours is behind. It is
    /// moved back once usage confirms our clock; until then it is deferred.
    pub fn load_checkpoints(
        &mut self,
        checkpoints: &Table<Checkpoint>,
        now: Timestamp,
    ) -> LoadedCheckpoints {
        for gone in self.stored_history.update(checkpoints) {
            let (key, container) = (gone.vpa(), &gone.spec.container_name);
            if self.is_abandoned(&key, container, None, now) {
                self.cluster.forget_container(&key, container, now);
            }
        }
        let mut result = LoadedCheckpoints::default();
        for (checkpoint, status) in self.stored_history.checkpoints() {
            let (key, container) = (checkpoint.vpa(), &checkpoint.spec.container_name);
            if self.is_backfilled(container) {
                continue;
            }
            let Some(tracked) = self.vpas.get_mut(&key) else {
                continue;
            };
            if tracked.rounds.loaded.contains(container) {
                continue;
            }
            let trusts_clock = self.clock.confirms(now);
            let loaded = self
                .cluster
                .load_checkpoint(&key, container, status, now, trusts_clock);
            match loaded {
                Ok(()) => result.accepted += 1,
                Err(CheckpointError::Future { .. }) => {
                    if tracked.rounds.deferred.insert(container.clone()) {
                        result.deferred.push(checkpoint.key.clone());
                    }
                    continue;
                }
                Err(error) => result.refused.push((checkpoint.key.clone(), error)),
            }
            tracked.rounds.deferred.remove(container);
            tracked.rounds.loaded.insert(container.clone());
        }
        self.load_method_histories(checkpoints, now, &mut result);
        result
    }

    /// Whether the history of a container comes from Prometheus, which has none of whole pods.
    pub(super) fn is_backfilled(&self, container: &str) -> bool {
        self.history.is_some() && container != WHOLE_POD
    }

    /// Loads the histories of sizing methods as they are stored now: each belongs to one object, so
    /// samples that were taken here are in the stored one only if they are in that here, too.
    fn load_method_histories(
        &mut self,
        checkpoints: &Table<Checkpoint>,
        now: Timestamp,
        result: &mut LoadedCheckpoints,
    ) {
        for checkpoint in checkpoints.iter() {
            let (key, container) = (checkpoint.vpa(), &checkpoint.spec.container_name);
            if self.is_backfilled(container) {
                continue;
            }
            let Some(tracked) = self.vpas.get_mut(&key) else {
                continue;
            };
            let is_due = tracked.sizing.method.is_some()
                && !tracked.rounds.deferred.contains(container)
                && tracked.rounds.loaded_histories.insert(container.clone());
            let Some(text) = checkpoint.sizing_history.as_deref().filter(|_| is_due) else {
                continue;
            };
            let loaded = decode(text).and_then(|stored| {
                self.cluster
                    .load_method_history(&key, container, stored, now)
            });
            result.histories += usize::from(loaded.is_ok());
            if let Err(error) = loaded {
                result
                    .refused_histories
                    .push((checkpoint.key.clone(), error));
            }
        }
    }

    /// The objects whose history is saved; `None` while usage contradicts the clock, since a stored
    /// history may then be better than ours.
    pub fn checkpointed(&self, now: Timestamp) -> Option<Vec<ObjectKey>> {
        let checkpointed = self
            .vpas
            .iter()
            .filter(|(key, tracked)| self.is_checkpointed(key, tracked));
        (!self.clock.contradicts(now)).then(|| checkpointed.map(|(key, _)| key.clone()).collect())
    }

    /// The checkpoints of an object's containers, except abandoned and deferred ones.
    pub fn checkpoints(
        &self,
        key: &ObjectKey,
        now: Timestamp,
    ) -> BTreeMap<String, VerticalPodAutoscalerCheckpointStatus> {
        let tracked = self
            .vpas
            .get(key)
            .filter(|tracked| self.is_checkpointed(key, tracked));
        let Some(tracked) = tracked else {
            return BTreeMap::new();
        };
        let mut checkpoints = self.cluster.checkpoints(key, now).unwrap_or_default();
        checkpoints.retain(|container, checkpoint| {
            !tracked.rounds.deferred.contains(container)
                && !self.is_abandoned(
                    key,
                    container,
                    time(checkpoint.last_sample_start.as_ref()),
                    now,
                )
        });
        checkpoints
    }

    /// The text of a container's history for its object's sizing method. `None` without such history,
    /// while earlier history is missing, or if it is too large to be stored.
    pub fn sizing_history(&self, key: &ObjectKey, container: &str) -> Option<String> {
        if self.cluster.awaits_method_history(key) {
            return None;
        }
        let text = encode(&self.cluster.method_history(key, container)?);
        let too_large = |bytes: &usize| {
            tracing::warn!(vpa = %key, container, bytes, "the history of the sizing method is too large to be stored");
        };
        text.inspect_err(too_large).ok()
    }

    /// Whether a container of an object was abandoned. Always false while the clock is not trusted.
    pub fn is_abandoned(
        &self,
        key: &ObjectKey,
        container: &str,
        last_heard: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        self.clock.may_expire(now) && self.cluster.is_abandoned(key, container, last_heard, now)
    }

    /// The container names that are sized and stored, for each object with more than the maximum.
    pub fn crowded(&self) -> BTreeMap<ObjectKey, BTreeSet<&str>> {
        let kept = |key: &ObjectKey| Some((key.clone(), self.cluster.kept_containers(key)?));
        self.vpas.keys().filter_map(kept).collect()
    }

    /// Whether the history of an object is saved: not while its pods are unknown, which would look
    /// like no history, and not while history is being fetched here or by another recommender.
    fn is_checkpointed(&self, key: &ObjectKey, tracked: &Tracked) -> bool {
        let selector = tracked.selector().filter(|known| !known.is_nothing());
        let Some(selector) = selector else {
            return false;
        };
        let is_missing = |history: &BackfillProgress| history.is_missing(&key.namespace, selector);
        let conditions = tracked
            .vpa
            .object
            .status
            .iter()
            .flat_map(|status| &status.conditions);
        let is_fetching = |condition: &VerticalPodAutoscalerCondition| {
            condition.kind == FETCHING_HISTORY && condition.status == ConditionStatus::True.as_str()
        };
        !self.history.as_ref().is_some_and(is_missing) && !conditions.into_iter().any(is_fetching)
    }
}

/// The settings of an object whose sizing method awaits its history, once its pods are known.
fn awaited_spec<'a>(cluster: &'a ClusterState, key: &ObjectKey) -> Option<&'a VpaSpec> {
    let spec = cluster.vpa_spec(key)?;
    (!spec.selector.is_nothing() && cluster.awaits_method_history(key)).then_some(spec)
}
