//! The part of the state that outlives the process: what is taken over from checkpoints, and what
//! is to be stored.

use std::collections::{BTreeMap, BTreeSet};

use api::vpa::{ConditionStatus, FETCHING_HISTORY, VerticalPodAutoscalerCondition};
use jiff::Timestamp;
use model::Selector;
use sizing::CheckpointError;
use view::{Checkpoint, ObjectKey, Table};

use super::{RecommenderState, Target, Tracked};
use crate::checkpoint::conversion;
use crate::history::BackfillProgress;

/// What came of the checkpoints that were new.
#[derive(Debug, Default, PartialEq)]
pub struct LoadedCheckpoints {
    /// How many were taken over.
    pub accepted: usize,
    /// Which were not, and why.
    pub refused: Vec<(ObjectKey, CheckpointError)>,
    /// Which are dated in the future and are held until usage confirms the clock.
    pub deferred: Vec<ObjectKey>,
}

impl RecommenderState {
    /// Takes over the stored history of the objects that this recommender is in charge of: of each
    /// container once, and only what was not measured here as well. Where a checkpoint is gone
    /// because its container was abandoned, so is what was taken over from it. Where history is
    /// fetched, that holds what is stored, and more.
    ///
    /// A checkpoint from the future was dated by a clock that was ahead, or ours is behind. It is
    /// moved back once usage confirms our clock; until then it is deferred, so that it is tried again.
    pub fn load_checkpoints(
        &mut self,
        checkpoints: &Table<Checkpoint>,
        now: Timestamp,
    ) -> LoadedCheckpoints {
        for gone in self.stored_history.update(checkpoints) {
            let (key, container) = (gone.autoscaler(), &gone.spec.container_name);
            if self.is_abandoned(&key, container, None, now) {
                self.cluster.forget_container(&key, container, now);
            }
        }
        let mut result = LoadedCheckpoints::default();
        if self.history.is_some() {
            return result;
        }
        for (checkpoint, status) in self.stored_history.checkpoints() {
            let (key, container) = (checkpoint.autoscaler(), &checkpoint.spec.container_name);
            let Some(tracked) = self.autoscalers.get_mut(&key) else {
                continue;
            };
            if tracked.loaded.contains(container) {
                continue;
            }
            let stored = conversion::from_object(status);
            let loaded = if self.clock.confirms(now) {
                self.cluster
                    .load_checkpoint_moved_back(&key, container, &stored, now)
            } else {
                self.cluster.load_checkpoint(&key, container, &stored, now)
            };
            match loaded {
                Ok(()) => result.accepted += 1,
                Err(CheckpointError::Future { .. }) => {
                    if tracked.deferred.insert(container.clone()) {
                        result.deferred.push(checkpoint.key.clone());
                    }
                    continue;
                }
                Err(error) => result.refused.push((checkpoint.key.clone(), error)),
            }
            tracked.deferred.remove(container);
            tracked.loaded.insert(container.clone());
        }
        result
    }

    /// The objects whose history is stored. None while usage contradicts the clock: what is stored
    /// may hold more than is known here, and a wrong clock cannot tell.
    pub fn checkpointed(&self, now: Timestamp) -> Option<Vec<ObjectKey>> {
        let checkpointed = self
            .autoscalers
            .iter()
            .filter(|(key, tracked)| self.is_checkpointed(key, tracked));
        (!self.clock.contradicts(now)).then(|| checkpointed.map(|(key, _)| key.clone()).collect())
    }

    /// What is to be stored of each container of an object, but for those that were abandoned, and
    /// those whose stored history is deferred.
    pub fn checkpoints(
        &self,
        key: &ObjectKey,
        now: Timestamp,
    ) -> BTreeMap<String, sizing::Checkpoint> {
        let tracked = self
            .autoscalers
            .get(key)
            .filter(|tracked| self.is_checkpointed(key, tracked));
        let Some(tracked) = tracked else {
            return BTreeMap::new();
        };
        let mut checkpoints = self.cluster.checkpoints(key, now).unwrap_or_default();
        checkpoints.retain(|container, checkpoint| {
            !tracked.deferred.contains(container)
                && !self.is_abandoned(key, container, checkpoint.last_sample_start, now)
        });
        checkpoints
    }

    /// Whether a container of an object that this recommender is in charge of was abandoned. None
    /// is while the clock is not trusted.
    pub fn is_abandoned(
        &self,
        key: &ObjectKey,
        container: &str,
        last_heard: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        self.clock.may_expire(now) && self.cluster.is_abandoned(key, container, last_heard, now)
    }

    /// The container names that are sized and stored of each object that has had more than that.
    pub fn crowded(&self) -> BTreeMap<ObjectKey, BTreeSet<&str>> {
        let kept = |key: &ObjectKey| Some((key.clone(), self.cluster.kept_containers(key)?));
        self.autoscalers.keys().filter_map(kept).collect()
    }

    /// Not while its pods are not known, since their history would seem to be gone; and not while
    /// history is still to come, or somebody else loads it.
    fn is_checkpointed(&self, key: &ObjectKey, tracked: &Tracked) -> bool {
        let Target::Known { selector, .. } = &tracked.target else {
            return false;
        };
        let is_missing = |history: &BackfillProgress| history.is_missing(&key.namespace, selector);
        let conditions = tracked
            .autoscaler
            .object
            .status
            .iter()
            .flat_map(|status| &status.conditions);
        let is_fetching = |condition: &VerticalPodAutoscalerCondition| {
            condition.kind == FETCHING_HISTORY && condition.status == ConditionStatus::True.as_str()
        };
        let is_complete = !self.history.as_ref().is_some_and(is_missing)
            && !conditions.into_iter().any(is_fetching);
        *selector != Selector::nothing() && is_complete
    }
}
