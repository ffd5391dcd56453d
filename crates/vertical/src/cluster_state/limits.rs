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
use super::group::{ByContainer, Group, History};
use super::links::touched;
use super::method_history::MAX_CONTAINERS;
use super::namespace::Namespace;
use super::pod::Pod;
use super::selection::Selection;
use super::vpa::Vpa;

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
        let (namespace, vpa) = self.vpa(id)?;
        kept_containers(namespace, vpa)
    }
}

/// All histories of a VPA's containers: those of its pods, and stored ones.
pub(super) fn known<'a>(
    namespace: &'a Namespace,
    vpa: &'a Vpa,
) -> impl Iterator<Item = (&'a str, &'a ContainerHistory)> {
    let selection = namespace.selection(vpa).into_iter();
    let measured =
        selection.flat_map(|selection| selection.histories(&namespace.groups, &namespace.shapes));
    let stored = vpa.stored.iter();
    measured.chain(stored.map(|(name, aggregate)| (&**name, aggregate)))
}

/// The most recently measured names; of several, those with most samples.
pub(super) fn kept_containers<'a>(
    namespace: &'a Namespace,
    vpa: &'a Vpa,
) -> Option<BTreeSet<&'a str>> {
    known(namespace, vpa).nth(MAX_CONTAINERS)?;
    let mut names: BTreeMap<&str, (Instant, i64)> = BTreeMap::new();
    for (name, aggregate) in known(namespace, vpa) {
        let (last, samples) = names.entry(name).or_insert((Instant::NEVER, 0));
        *last = aggregate.last_sample().max(*last);
        *samples = samples.saturating_add(aggregate.samples());
    }
    if names.len() <= MAX_CONTAINERS {
        return None;
    }
    let mut ranked: Vec<_> = names
        .into_iter()
        .map(|(name, rank)| (Reverse(rank), name))
        .collect();
    ranked.sort_unstable();
    Some(
        ranked
            .into_iter()
            .take(MAX_CONTAINERS)
            .map(|(_, name)| name)
            .collect(),
    )
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
        for id in self.groups.ids() {
            let Some(group) = self.groups.get(id) else {
                continue;
            };
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

    fn retire(&mut self, id: u32, container: &str) {
        let Some(group) = touched(&mut self.groups, &mut self.selections, id) else {
            return;
        };
        let Some(history) = take(group, container) else {
            return;
        };
        for id in group.selections.clone() {
            let Some(selection) = self.selections.get_mut(id) else {
                continue;
            };
            let retired = selection.retired.entry(container.into()).or_default();
            retired.merge(&self.shapes, &history.aggregate);
            self.bound_retired(id);
        }
        self.drop_if_idle(id);
    }

    /// Sets the checkpoint of a VPA's container. Returns false if the VPA does not
    /// exist.
    pub(super) fn store(&mut self, vpa: &str, container: &str, history: ContainerHistory) -> bool {
        let Some(found) = self.vpas.get_mut(vpa) else {
            return false;
        };
        found.stored.insert(container.into(), history);
        self.bound_stored(vpa);
        true
    }

    /// Drops the least useful checkpoints of a VPA above [`MAX_KEPT`].
    pub(super) fn bound_stored(&mut self, vpa: &str) {
        let Some(found) = self.vpas.get(vpa) else {
            return;
        };
        let names = self.least_useful(self.selection(found), &found.stored);
        if let Some(found) = self.vpas.get_mut(vpa) {
            found.stored.retain(|name, _| !names.contains(name));
        }
    }

    /// Drops the least useful histories of deleted pods of a selection above [`MAX_KEPT`].
    fn bound_retired(&mut self, id: u32) {
        let Some(selection) = self.selections.get(id) else {
            return;
        };
        let names = self.least_useful(Some(selection), &selection.retired);
        if let Some(selection) = self.selections.get_mut(id).filter(|_| !names.is_empty()) {
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
        let mut ranks: BTreeMap<Box<str>, (bool, Instant)> = histories
            .iter()
            .map(|(name, history)| (name.clone(), (false, history.last_sample())))
            .collect();
        let measured = selection.into_iter();
        for (name, history) in
            measured.flat_map(|selection| selection.histories(&self.groups, &self.shapes))
        {
            if let Some((_, last)) = ranks.get_mut(name) {
                *last = history.last_sample().max(*last);
            }
        }
        let groups = selection
            .into_iter()
            .flat_map(|all| all.groups_in(&self.groups));
        for (name, _) in groups
            .flat_map(|group| self.pods_of(group))
            .flat_map(Pod::containers)
        {
            if let Some((is_used, _)) = ranks.get_mut(name) {
                *is_used = true;
            }
        }
        let mut ranked: Vec<_> = ranks
            .into_iter()
            .map(|(name, rank)| (Reverse(rank), name))
            .collect();
        ranked.sort_unstable();
        ranked
            .into_iter()
            .skip(MAX_CONTAINERS)
            .map(|(_, name)| name)
            .collect()
    }
}

fn take(group: &mut Group, container: &str) -> Option<History> {
    let index = group
        .histories
        .iter()
        .position(|(name, _)| **name == *container)?;
    Some(group.histories.swap_remove(index).1)
}
