//! The part of the state that outlives the process: what is taken over from checkpoints, and what is to be stored.

use std::collections::{BTreeMap, BTreeSet};

use api::vpa::{ConditionStatus, FETCHING_HISTORY, VerticalPodAutoscalerCondition};
use cluster::{Checkpoint, ObjectKey, Table};
use jiff::Timestamp;
use model::Selector;
use sizing::CheckpointError;

use super::{State, Target, Tracked, id};
use crate::checkpoint::form;
use crate::history::Ledger;

/// What came of the checkpoints that were new.
#[derive(Debug, Default, PartialEq)]
pub struct Loaded {
    /// How many were taken over.
    pub accepted: usize,
    /// Which were not, and why.
    pub refused: Vec<(ObjectKey, CheckpointError)>,
}

impl State {
    /// Takes over the stored history of the objects that this recommender is in charge of: of each container once, and
    /// only what was not measured here as well. Where a checkpoint is gone because its container was abandoned, so is
    /// what was taken over from it. Where history is fetched, that holds what is stored, and more.
    pub fn load_checkpoints(&mut self, checkpoints: &Table<Checkpoint>, now: Timestamp) -> Loaded {
        for gone in self.past.see(checkpoints) {
            let (key, container) = (gone.autoscaler(), &gone.spec.container_name);
            if self.is_abandoned(&key, container, None, now) {
                self.fleet.forget_container(&id(&key), container, now);
            }
        }
        let mut result = Loaded::default();
        if self.history.is_some() {
            return result;
        }
        for (checkpoint, status) in self.past.checkpoints() {
            let (key, container) = (checkpoint.autoscaler(), &checkpoint.spec.container_name);
            let Some(tracked) = self.autoscalers.get_mut(&key) else { continue };
            if tracked.loaded.contains(container) {
                continue;
            }
            match self.fleet.load_checkpoint(&id(&key), container, &form::read(status), now) {
                Ok(()) => result.accepted += 1,
                // Our own clock may be behind: it is tried again until usage confirms the clock.
                Err(CheckpointError::Future { .. }) if !self.clock.confirms(now) => continue,
                Err(error) => result.refused.push((checkpoint.key.clone(), error)),
            }
            tracked.loaded.insert(container.clone());
        }
        result
    }

    /// The objects whose history is stored. None while usage contradicts the clock: what is stored may hold more than is known here,
    /// and a wrong clock cannot tell.
    pub fn checkpointed(&self, now: Timestamp) -> Option<Vec<ObjectKey>> {
        let checkpointed = self.autoscalers.iter().filter(|(key, tracked)| self.is_checkpointed(key, tracked));
        (!self.clock.contradicts(now)).then(|| checkpointed.map(|(key, _)| key.clone()).collect())
    }

    /// What is to be stored of each container of an object, but for those that were abandoned.
    pub fn checkpoints(&self, key: &ObjectKey, now: Timestamp) -> BTreeMap<String, sizing::Checkpoint> {
        let id = id(key);
        let is_checkpointed = self.autoscalers.get(key).is_some_and(|tracked| self.is_checkpointed(key, tracked));
        let checkpoints = is_checkpointed.then(|| self.fleet.checkpoints(&id, now)).flatten();
        let mut checkpoints = checkpoints.unwrap_or_default();
        checkpoints
            .retain(|container, checkpoint| !self.is_abandoned(key, container, checkpoint.last_sample_start, now));
        checkpoints
    }

    /// Whether a container of an object that this recommender is in charge of was abandoned. None is while the clock is not trusted.
    pub fn is_abandoned(
        &self,
        key: &ObjectKey,
        container: &str,
        last_heard: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        self.clock.may_expire(now) && self.fleet.is_abandoned(&id(key), container, last_heard, now)
    }

    /// The container names that are sized and stored of each object that has had more than that.
    pub(crate) fn crowded(&self) -> BTreeMap<ObjectKey, BTreeSet<&str>> {
        let kept = |key: &ObjectKey| Some((key.clone(), self.fleet.kept_containers(&id(key))?));
        self.autoscalers.keys().filter_map(kept).collect()
    }

    /// Not while its pods are not known, since their history would seem to be gone; and not while history is still to come,
    /// or somebody else loads it.
    fn is_checkpointed(&self, key: &ObjectKey, tracked: &Tracked) -> bool {
        let Target::Known { selector, .. } = &tracked.target else { return false };
        let is_missing = |history: &Ledger| history.is_missing(&key.namespace, selector);
        let conditions = tracked.autoscaler.object.status.iter().flat_map(|status| &status.conditions);
        let is_fetching = |condition: &VerticalPodAutoscalerCondition| {
            condition.kind == FETCHING_HISTORY && condition.status == ConditionStatus::True.as_str()
        };
        let is_complete = !self.history.as_ref().is_some_and(is_missing) && !conditions.into_iter().any(is_fetching);
        *selector != Selector::nothing() && is_complete
    }
}
