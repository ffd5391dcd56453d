//! Histories of the sizing methods other than the VPA's: by container name, over all pods of a VPA.
//!
//! They start when the VPA selects the policy, and with every start of the process: they
//! have no checkpoints. They end with the VPA, with the policy, or eight days after the last
//! sample of the container. VPAs without such a method take no memory for them.

use std::collections::BTreeMap;

use model::MethodStep;
use sizing::{Amounts, Instant, MethodHistory, MethodSettings, Observation};

/// Maximum number of container names of one VPA that are sized and stored.
pub const MAX_CONTAINERS: usize = 200;

/// Retention of a container without samples.
const RETENTION_NS: i64 = 8 * 86_400_000_000_000;

/// Histories by container name.
#[derive(Clone, Debug, Default)]
pub(super) struct MethodHistories(BTreeMap<Box<str>, MethodHistory>);

impl MethodHistories {
    /// Adds an observation of a container.
    pub(super) fn observe(
        &mut self,
        policy: &MethodSettings,
        pod: u32,
        container: &str,
        seen: Observation,
        at: Instant,
    ) {
        if !self.0.contains_key(container) {
            self.0
                .insert(container.into(), MethodHistory::new(policy, at));
            self.bound();
        }
        if let Some(history) = self.0.get_mut(container) {
            history.observe(policy, pod, seen, at);
        }
    }

    /// The recommendation of a container before rounding and limits; `None` without enough history.
    pub(super) fn recommend(&self, policy: &MethodSettings, container: &str) -> Option<Amounts> {
        self.0.get(container)?.recommend(policy)
    }

    /// The steps of the recommendation for CPU and memory; `None` without enough history.
    pub(super) fn explain(
        &self,
        policy: &MethodSettings,
        container: &str,
    ) -> Option<[Vec<MethodStep>; 2]> {
        self.0.get(container)?.explain(policy)
    }

    /// Whether a container has less history than its recommendation needs to decrease.
    pub(super) fn is_young(&self, policy: &MethodSettings, container: &str) -> bool {
        let is_old = |history: &MethodHistory| history.lifespan_ns() >= policy.minimum_history_ns;
        !self
            .0
            .get(container)
            .is_some_and(|history| is_old(history) && history.recommend(policy).is_some())
    }

    /// Drops the least recently measured container above the maximum.
    fn bound(&mut self) {
        if self.0.len() > MAX_CONTAINERS {
            let oldest = self
                .0
                .iter()
                .min_by_key(|(_, history)| history.last())
                .map(|(name, _)| name.clone());
            oldest.and_then(|name| self.0.remove(&name));
        }
    }

    /// Drops containers that are no longer measured.
    pub(super) fn collect_garbage(&mut self, now: Instant) {
        self.0
            .retain(|_, history| now.since(history.last()) < RETENTION_NS);
    }
}
