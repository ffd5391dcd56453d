//! Limits on history of short-lived pods, since tenants choose container names and labels.
//!
//! Per VPA, only the most recently measured container names are sized and stored. Per
//! namespace, the oldest histories without pods are merged into one per VPA and container
//! name. If there are too many of those, names without pods are dropped first, the least recently
//! measured ones before others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sizing::{ContainerHistory, Instant};
use view::ObjectKey;

use super::ClusterState;
use super::group::{ByContainer, History};
use super::histories::Histories;
use super::matched_vpa::MatchedVpa;
use super::method_history::MAX_CONTAINERS;
use super::namespace::Namespace;
use super::pod::Pod;
use super::selection::Selection;

/// Maximum number of container names with checkpoints, and with history of deleted pods, of one
/// VPA. Above it, [`MAX_CONTAINERS`] are kept, so that ranking is rare.
const MAX_KEPT: usize = 2 * MAX_CONTAINERS;

/// Maximum number of histories without pods in one namespace.
pub const MAX_IDLE_HISTORIES: usize = 5000;

/// Histories kept when the maximum is exceeded, so that merging is rare.
const IDLE_LEFT: usize = MAX_IDLE_HISTORIES / 10 * 9;

impl ClusterState {
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
            *last = aggregate.last_sample().max(*last);
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
                own.map(|(name, history)| (history.aggregate.last_sample(), id, name.clone())),
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
            .map(|(name, history)| (name.clone(), (false, history.last_sample())));
        let mut ranks: BTreeMap<Box<str>, (bool, Instant)> = last_samples.collect();
        let Histories { groups, shapes, .. } = &self.histories;
        let selection = || selection.into_iter();
        for (name, history) in selection().flat_map(|all| all.histories(groups, shapes)) {
            if let Some((_, last)) = ranks.get_mut(name) {
                *last = history.last_sample().max(*last);
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
