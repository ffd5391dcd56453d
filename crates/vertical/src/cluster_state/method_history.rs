//! Histories of the sizing methods other than the VPA's: by container name, over all pods of a VPA.
//!
//! They start when the VPA selects the policy, or continue from a checkpoint or from the samples in
//! Prometheus. They end with the VPA, with the policy, or eight days after the last sample of the
//! container, 100 days if history counts in runs. VPAs without such a method take no memory for them.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use sizing::{Instant, MethodHistory, MethodSettings, Observation, StoredMethodHistory};
use view::ObjectKey;

use super::ClusterState;
use super::vpa::Vpa;
use crate::checkpoint::method_history::StoredHistoryError;

/// Maximum number of container names of one VPA that are sized and stored.
pub const MAX_CONTAINERS: usize = 200;

/// Maximum time ahead for window-based policies. A later sample would stall their windows until
/// then, so they ignore it.
pub(super) const MAX_WINDOW_AHEAD_NS: i64 = 300_000_000_000;

/// Retention of a container without samples.
const RETENTION_NS: i64 = 8 * 86_400_000_000_000;

/// The same if history counts in runs, for a run per quarter.
const RUNS_RETENTION_NS: i64 = 100 * 86_400_000_000_000;

/// Maximum number of observations of one VPA that are kept until its earlier history has arrived:
/// three hours of one pod. A source usually answers within minutes, and then has most of them too.
const MAX_RECENT: usize = 200;

#[derive(Clone, Debug, Default)]
pub(super) struct MethodHistories {
    by_container: BTreeMap<Box<str>, MethodHistory>,
    /// The last observations, in their order, while earlier history is missing; else `None`.
    recent: Option<VecDeque<Recent>>,
}

/// Observation of a container while its earlier history is missing.
#[derive(Clone, Debug)]
struct Recent {
    container: Box<str>,
    pod: u64,
    at: Instant,
    seen: Observation,
}

impl MethodHistories {
    /// No histories. `awaits_earlier`: whether earlier history will be prepended.
    pub(super) fn new(awaits_earlier: bool) -> Self {
        Self {
            by_container: BTreeMap::new(),
            recent: awaits_earlier.then(VecDeque::new),
        }
    }

    /// Adds an observation of a container.
    pub(super) fn observe(
        &mut self,
        policy: &MethodSettings,
        pod: u64,
        container: &str,
        seen: Observation,
        at: Instant,
    ) {
        if let Some(recent) = &mut self.recent {
            if recent.len() >= MAX_RECENT {
                recent.pop_front();
            }
            recent.push_back(Recent {
                container: container.into(),
                pod,
                at,
                seen,
            });
        }
        if !self.by_container.contains_key(container) {
            self.insert(container, MethodHistory::new(policy, at));
        }
        if let Some(history) = self.by_container.get_mut(container) {
            history.observe(policy, pod, seen, at);
        }
    }

    pub(super) fn get(&self, container: &str) -> Option<&MethodHistory> {
        self.by_container.get(container)
    }

    /// Adds a loaded history, unless the one here is longer. Samples in both do not count twice,
    /// since only one of them stays.
    fn load(&mut self, container: &str, loaded: MethodHistory) {
        let known = self.by_container.get(container);
        if known.is_none_or(|known| known.lifespan_ns() < loaded.lifespan_ns()) {
            self.insert(container, loaded);
        }
    }

    /// Replaces the histories by earlier ones, each continued with the observations here that are
    /// later. OOM kills all count: `earlier` has none.
    fn prepend(&mut self, policy: &MethodSettings, earlier: &Self) {
        let recent = self.recent.take().unwrap_or_default();
        for (container, earlier) in &earlier.by_container {
            let mut history = earlier.clone();
            let until = history.last();
            let own = recent
                .iter()
                .filter(|recent| recent.container == *container);
            let is_kill =
                |it: &&Recent| matches!(it.seen, Observation::Oom { .. }) && it.at <= until;
            for kill in own.clone().filter(is_kill) {
                history.observe(policy, kill.pod, kill.seen, kill.at);
            }
            history.complete();
            for recent in own {
                history.observe(policy, recent.pod, recent.seen, recent.at);
            }
            self.insert(container, history);
        }
    }

    /// Inserts a history. Above the maximum, drops the least recently measured container.
    fn insert(&mut self, container: &str, history: MethodHistory) {
        self.by_container.insert(container.into(), history);
        if self.by_container.len() > MAX_CONTAINERS {
            let measured = self.by_container.iter();
            let oldest = measured.min_by_key(|(_, history)| history.last());
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.and_then(|name| self.by_container.remove(&name));
        }
    }

    pub(super) fn forget(&mut self, container: &str) {
        self.by_container.remove(container);
    }

    /// Drops containers that are no longer measured.
    pub(super) fn collect_garbage(&mut self, now: Instant) {
        let retention_ns = |history: &MethodHistory| {
            if history.counts_runs() {
                RUNS_RETENTION_NS
            } else {
                RETENTION_NS
            }
        };
        self.by_container
            .retain(|_, history| now.since(history.last()) < retention_ns(history));
    }

    pub(super) fn counts_runs(&self) -> bool {
        self.by_container.values().any(MethodHistory::counts_runs)
    }

    /// Ends the recent runs of pods that are not running, and continues those of pods that are.
    pub(super) fn end_runs(&mut self, is_running: impl Fn(u64) -> bool) {
        for history in self.by_container.values_mut() {
            history.end_runs(&is_running);
        }
    }
}

impl ClusterState {
    /// Lets each new history of a sizing method other than the VPA's await earlier history. It keeps
    /// its last observations until that arrives.
    pub fn await_method_histories(&mut self) {
        self.awaits_method_histories = true;
    }

    /// Whether the VPA has its own sizing policy and its earlier history is missing.
    pub fn awaits_method_history(&self, id: &ObjectKey) -> bool {
        let matched = self.vpa(id);
        let own = matched.and_then(|matched| matched.vpa.own.as_deref());
        own.is_some_and(|own| own.recent.is_some())
    }

    /// The history of a container for the VPA's own sizing policy, as it is stored. `None` without
    /// such a policy or history.
    pub fn method_history(&self, id: &ObjectKey, container: &str) -> Option<StoredMethodHistory> {
        let (policy, histories) = self.vpa(id)?.vpa.method()?;
        Some(histories.get(container)?.save(policy))
    }

    /// Loads the stored history of a container for the VPA's own sizing policy. No effect without
    /// such a policy, or if more history is known here. A history that ends more than five minutes
    /// after `now` is refused: samples would not count until then.
    pub fn load_method_history(
        &mut self,
        id: &ObjectKey,
        container: &str,
        stored: StoredMethodHistory,
        now: Timestamp,
    ) -> Result<(), StoredHistoryError> {
        let Some((policy, histories)) = self.vpa_mut(id).and_then(Vpa::method_mut) else {
            return Ok(());
        };
        let loaded = MethodHistory::load(policy, stored)?;
        if loaded.last().since(now.into()) > MAX_WINDOW_AHEAD_NS {
            return Err(StoredHistoryError::Future);
        }
        histories.load(container, loaded);
        Ok(())
    }

    /// Adds the histories of `earlier` before those of the VPAs that await them.
    pub fn prepend_method_histories(&mut self, earlier: &Self) {
        for id in earlier.vpa_ids() {
            let before = earlier.vpa(&id).and_then(|before| before.vpa.method());
            let own = self.vpa_mut(&id).and_then(Vpa::method_mut);
            if let Some(((recorded, before), (policy, histories))) = before.zip(own)
                && policy.shares_history_with(recorded)
                && histories.recent.is_some()
            {
                histories.prepend(policy, before);
            }
        }
    }

    fn vpa_mut(&mut self, id: &ObjectKey) -> Option<&mut Vpa> {
        let namespace = self.namespaces.get_mut(id.namespace.as_str())?;
        namespace.histories.vpas.get_mut(&*id.name)
    }
}
