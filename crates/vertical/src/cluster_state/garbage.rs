//! History that is dropped, since tenants choose container names and labels.
//!
//! * Hourly, expired and unused histories, as upstream (`pkg/recommender/model/cluster.go`,
//!   `garbageCollectAggregateCollectionStates`).
//! * The history of containers that were removed from their workload. Upstream keeps their checkpoint
//!   as long as the VPA exists, so that a container renamed years ago still takes its share of a pod's
//!   minimum. Here it ends like live history: once it is as old as all memory windows together, and
//!   only while a running pod shows that the container is really gone.
//! * Above limits, the history of short-lived pods. Per VPA, only the most recently measured container
//!   names are sized and stored. Per namespace, the oldest histories without pods are merged into one
//!   per VPA and container name. If there are too many of those, names without pods are dropped first,
//!   the least recently measured ones before others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sizing::{ContainerHistory, Instant};
use view::ObjectKey;

use super::ClusterState;
use super::histories::{Histories, names};
use super::matched_vpa::MatchedVpa;
use super::method_history::MAX_CONTAINERS;
use super::namespace::{Namespace, Pod};
use super::selection::{ByContainer, History, Selection};

/// Minimum interval between collections.
const INTERVAL_NS: i64 = 3_600_000_000_000;

/// Maximum number of container names with checkpoints, and with history of deleted pods, of one
/// VPA. Above it, [`MAX_CONTAINERS`] are kept, so that ranking is rare.
const MAX_KEPT: usize = 2 * MAX_CONTAINERS;

/// Maximum number of histories without pods in one namespace.
pub(super) const MAX_IDLE_HISTORIES: usize = 5000;

/// Histories kept when the maximum is exceeded, so that merging is rare.
const IDLE_LEFT: usize = MAX_IDLE_HISTORIES / 10 * 9;

impl ClusterState {
    /// Once an hour, drops expired and unused histories, and groups with neither history nor pods.
    /// Returns the number of dropped histories. `expires`: whether expired histories are dropped, not
    /// while the clock is untrusted.
    pub fn collect_garbage(&mut self, now: Timestamp, expires: bool) -> usize {
        // After a clock was set back, the last time may be in the future, even by months.
        if (0..INTERVAL_NS).contains(&Instant::from(now).since(self.last_garbage_collection)) {
            return 0;
        }
        self.last_garbage_collection = now.into();
        let dropped = self
            .namespaces
            .values_mut()
            .map(|namespace| namespace.collect_garbage(now, expires))
            .sum();
        self.namespaces.retain(|_, namespace| !namespace.is_empty());
        dropped
    }

    /// Whether no pod of the VPA has the container while some run, and it has no samples
    /// within the retention: neither here nor since `last_heard`, as reported by others.
    pub fn is_abandoned(
        &self,
        id: &ObjectKey,
        container: &str,
        last_heard: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        let Some(matched) = self.vpa(id) else {
            return false;
        };
        let retention_ns = matched.memory_rules(container).retention_ns();
        let is_old =
            |time: Timestamp| now.duration_since(time).as_nanos() >= i128::from(retention_ns);
        let mut live = matched
            .groups()
            .flat_map(|group| &group.histories)
            .filter(|(name, _)| **name == *container);
        let retired = matched
            .selection()
            .and_then(|selection| selection.retired.get(container));
        let kept = matched.vpa.stored.get(container).into_iter().chain(retired);
        let mut last_kept = kept.filter_map(|history| history.last_sample.into());
        last_heard.is_none_or(is_old)
            && last_kept.all(is_old)
            && live.all(|(_, history)| history.is_expired(retention_ns, now.into()))
            && matched.pods().any(|pod| !pod.phase.is_finished())
            && !matched.pods().any(|pod| pod.has_container(container))
    }

    /// Drops the checkpoint of a VPA's container, and its expired live history.
    pub fn forget_container(&mut self, id: &ObjectKey, container: &str, now: Timestamp) {
        let Some(matched) = self.vpa(id) else {
            return;
        };
        let retention_ns = matched.memory_rules(container).retention_ns();
        self.update(&id.namespace, |namespace| {
            namespace.forget_container(&id.name, container, retention_ns, now);
        });
    }

    /// The container names that are sized and stored; `None` if all are, with at most
    /// [`MAX_CONTAINERS`].
    pub fn kept_containers(&self, id: &ObjectKey) -> Option<BTreeSet<&str>> {
        self.vpa(id)?.kept_containers()
    }
}

impl<'a> MatchedVpa<'a> {
    /// The most recently measured names; of several, those with most samples.
    pub(super) fn kept_containers(self) -> Option<BTreeSet<&'a str>> {
        self.known().nth(MAX_CONTAINERS)?;
        let mut names: BTreeMap<&str, (Instant, i64)> = BTreeMap::new();
        for (name, aggregate) in self.known() {
            let (last, samples) = names.entry(name).or_insert((Instant::NEVER, 0));
            *last = aggregate.last_sample.max(*last);
            *samples = samples.saturating_add(aggregate.samples());
        }
        let is_above = names.len() > MAX_CONTAINERS;
        is_above.then(|| by_rank(names).take(MAX_CONTAINERS).collect())
    }
}

/// The names with the highest rank first.
fn by_rank<N: Ord, R: Ord>(ranks: BTreeMap<N, R>) -> impl Iterator<Item = N> {
    let ranked = ranks.into_iter().map(|(name, rank)| (Reverse(rank), name));
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, name)| name)
}

impl Namespace {
    /// Drops expired and unused histories, then groups with neither history nor pods. Returns the
    /// number of dropped histories.
    fn collect_garbage(&mut self, now: Timestamp, expires: bool) -> usize {
        let mut dropped = 0;
        self.histories.refresh_rules();
        for id in self.histories.groups.ids().collect::<Vec<_>>() {
            dropped += self.collect_group(id, now, expires);
            self.histories.drop_if_idle(id);
        }
        if !expires {
            return dropped;
        }
        let vpas = self.histories.vpas.values_mut();
        for histories in vpas.filter_map(|vpa| vpa.own.as_deref_mut()) {
            histories.collect_garbage(now.into());
        }
        dropped
    }

    /// Drops expired histories, and empty ones without a live container. Returns the number of
    /// histories dropped or emptied.
    ///
    /// An empty history is used while an unfinished pod has the container, or a finished one whose
    /// target exists.
    fn collect_group(&mut self, id: u32, now: Timestamp, expires: bool) -> usize {
        let histories = &self.histories;
        let has_target = histories.groups.get(id).is_some_and(|group| {
            let names = names(&histories.selections, &group.selections);
            let mut vpas = names.filter_map(|name| histories.vpas.get(name));
            vpas.any(|vpa| vpa.spec.target_exists)
        });
        let default_rules = histories.default_rules;
        let Some(group) = self.histories.touched(id) else {
            return 0;
        };
        let pods = group.pods.iter().filter_map(|pod| self.pods.get(pod));
        let pods: Vec<&Pod> = pods.collect();
        let mut dropped = 0;
        group.histories.retain_mut(|(container, history)| {
            let mut having = pods.iter().filter(|pod| pod.has_container(container));
            let is_used = |pod: &&Pod| has_target || !pod.phase.is_finished();
            let useless = history.aggregate.samples() == 0 && !having.clone().any(is_used);
            let rules = history.rules.as_deref().unwrap_or(&default_rules);
            let is_old = expires && history.is_expired(rules.retention_ns(), now.into());
            if !useless && !is_old {
                return true;
            }
            dropped += 1;
            *history = History::new(now, history.rules.take());
            !useless && having.next().is_some()
        });
        dropped
    }

    fn forget_container(&mut self, vpa: &str, container: &str, retention_ns: i64, now: Timestamp) {
        let Some(vpa) = self.histories.vpas.get_mut(vpa) else {
            return;
        };
        vpa.stored.remove(container);
        if let Some(histories) = vpa.own.as_deref_mut() {
            histories.forget(container);
        }
        let id = vpa.selection;
        let Some(selection) = id.and_then(|id| self.histories.selections.get_mut(id)) else {
            return;
        };
        selection.retired.remove(container);
        selection.changed();
        for id in selection.groups.clone() {
            let group = self.histories.groups.get(id);
            let has_container = |pod: &Pod| pod.has_container(container);
            if group.is_some_and(|group| self.pods_of(group).any(has_container)) {
                continue;
            }
            if let Some(group) = self.histories.touched(id) {
                group.histories.retain(|(name, history)| {
                    **name != *container || !history.is_expired(retention_ns, now.into())
                });
            }
            self.histories.drop_if_idle(id);
        }
    }

    /// Counts histories that may have lost their last pod, and merges the oldest above the maximum.
    pub(super) fn may_be_idle(&mut self, count: usize) {
        self.idle += count;
        if self.idle <= MAX_IDLE_HISTORIES {
            return;
        }
        let mut idle = self.idle_histories();
        let excess = idle.len().saturating_sub(IDLE_LEFT);
        self.idle = idle.len() - excess;
        idle.sort_unstable();
        for (_, group, container) in idle.into_iter().take(excess) {
            self.retire(group, &container);
        }
    }

    /// Histories without pods, by their last sample.
    fn idle_histories(&self) -> Vec<(Instant, u32, Box<str>)> {
        let mut idle = Vec::new();
        for (id, group) in self.histories.groups.entries() {
            let is_idle = |(name, _): &&(Box<str>, History)| {
                !self.pods_of(group).any(|pod| pod.has_container(name))
            };
            let own = group.histories.iter().filter(is_idle);
            idle.extend(
                own.map(|(name, history)| (history.aggregate.last_sample, id, name.clone())),
            );
        }
        idle
    }

    /// Merges a history into those of deleted pods of its selections.
    fn retire(&mut self, id: u32, container: &str) {
        let Some(group) = self.histories.touched(id) else {
            return;
        };
        let Some(index) = group.position(container) else {
            return;
        };
        let (_, history) = group.histories.swap_remove(index);
        for id in group.selections.clone() {
            let Some(selection) = self.histories.selections.get_mut(id) else {
                continue;
            };
            let retired = selection.retired.entry(container.into()).or_default();
            retired.merge(&self.histories.shapes, &history.aggregate);
            self.bound_retired(id);
        }
        self.histories.drop_if_idle(id);
    }

    /// Sets the checkpoint of a VPA's container. Returns false if the VPA does not
    /// exist.
    pub(super) fn store(&mut self, vpa: &str, container: &str, history: ContainerHistory) -> bool {
        let Some(found) = self.histories.vpas.get_mut(vpa) else {
            return false;
        };
        found.stored.insert(container.into(), history);
        self.bound_stored(vpa);
        true
    }

    /// Drops the least useful checkpoints of a VPA above [`MAX_KEPT`].
    pub(super) fn bound_stored(&mut self, vpa: &str) {
        let Some(found) = self.histories.vpas.get(vpa) else {
            return;
        };
        let selection = found.selection;
        let selection = selection.and_then(|id| self.histories.selections.get(id));
        let names = self.least_useful(selection, &found.stored);
        if let Some(found) = self.histories.vpas.get_mut(vpa) {
            found.stored.retain(|name, _| !names.contains(name));
        }
    }

    /// Drops the least useful histories of deleted pods of a selection above [`MAX_KEPT`].
    fn bound_retired(&mut self, id: u32) {
        let Some(selection) = self.histories.selections.get(id) else {
            return;
        };
        let names = self.least_useful(Some(selection), &selection.retired);
        let selection = self.histories.selections.get_mut(id);
        if let Some(selection) = selection.filter(|_| !names.is_empty()) {
            selection.retired.retain(|name, _| !names.contains(name));
            selection.changed();
        }
    }

    /// All but [`MAX_CONTAINERS`] of these names; none up to [`MAX_KEPT`]. Names with a pod are kept
    /// before others, then the most recently measured ones.
    fn least_useful(
        &self,
        selection: Option<&Selection>,
        histories: &ByContainer,
    ) -> BTreeSet<Box<str>> {
        if histories.len() <= MAX_KEPT {
            return BTreeSet::new();
        }
        let last_samples = histories
            .iter()
            .map(|(name, history)| (name.clone(), (false, history.last_sample)));
        let mut ranks: BTreeMap<Box<str>, (bool, Instant)> = last_samples.collect();
        let Histories { groups, shapes, .. } = &self.histories;
        let selection = || selection.into_iter();
        for (name, history) in selection().flat_map(|all| all.histories(groups, shapes)) {
            if let Some((_, last)) = ranks.get_mut(name) {
                *last = history.last_sample.max(*last);
            }
        }
        let groups = selection().flat_map(|all| all.groups_in(groups));
        let pods = groups.flat_map(|group| self.pods_of(group));
        for (name, _) in pods.flat_map(Pod::containers) {
            if let Some((is_used, _)) = ranks.get_mut(name) {
                *is_used = true;
            }
        }
        by_rank(ranks).skip(MAX_CONTAINERS).collect()
    }
}
