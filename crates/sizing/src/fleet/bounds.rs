//! Bounds on what short-lived pods leave behind: tenants choose the names of containers, and the
//! labels of pods.
//!
//! Of one autoscaler the container names that were measured last are sized and stored. In one
//! namespace the oldest histories of containers that no pod has any more are merged into those that
//! the autoscalers keep per container name. Of too many names there, those that no pod has are
//! forgotten first, the ones measured longest ago first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Fleet;
use super::autoscaler::{Autoscaler, AutoscalerId};
use super::group::{Group, History};
use super::namespace::Namespace;
use super::pod::Pod;
use crate::aggregate::Aggregate;
use crate::instant::Instant;

/// The most container names of one autoscaler that are sized and stored.
pub const MAX_CONTAINERS: usize = 200;

/// The most container names under which one autoscaler keeps stored history, and likewise history
/// of pods that are gone. When there are more, [`MAX_CONTAINERS`] are left, so that ranking them
/// has to be done only now and then.
const MAX_KEPT: usize = 2 * MAX_CONTAINERS;

/// The most histories in one namespace of containers that no pod has any more.
pub const MAX_IDLE_HISTORIES: usize = 5000;

/// What is left of them when there are more, so that merging has to be done only now and then.
const IDLE_LEFT: usize = MAX_IDLE_HISTORIES / 10 * 9;

impl Fleet {
    /// The container names that are sized and stored, where the autoscaler knows more than
    /// [`MAX_CONTAINERS`]; none where all are.
    pub fn kept_containers(&self, id: &AutoscalerId) -> Option<BTreeSet<&str>> {
        let (namespace, autoscaler) = self.autoscaler(id)?;
        kept_containers(namespace, autoscaler)
    }
}

/// All that is known of an autoscaler's containers: of each group of pods, and what is kept per
/// name.
pub(super) fn known<'a>(
    namespace: &'a Namespace,
    autoscaler: &'a Autoscaler,
) -> impl Iterator<Item = (&'a str, &'a Aggregate)> {
    let groups = autoscaler
        .groups
        .iter()
        .filter_map(|group| namespace.groups.get(*group));
    let live = groups.flat_map(|group| {
        group
            .histories
            .iter()
            .map(|(name, history)| (&**name, &history.aggregate))
    });
    let kept = autoscaler.stored.iter().chain(&autoscaler.retired);
    live.chain(kept.map(|(name, aggregate)| (&**name, aggregate)))
}

/// Those measured last; of several, those measured most often.
pub(super) fn kept_containers<'a>(
    namespace: &'a Namespace,
    autoscaler: &'a Autoscaler,
) -> Option<BTreeSet<&'a str>> {
    known(namespace, autoscaler).nth(MAX_CONTAINERS)?;
    let mut names: BTreeMap<&str, (Instant, i64)> = BTreeMap::new();
    for (name, aggregate) in known(namespace, autoscaler) {
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
    /// Takes notice of histories that may have lost their last pod; where too many have, the oldest
    /// are merged.
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

    /// By their last sample.
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
        let Some(group) = self.groups.get_mut(id) else {
            return;
        };
        let Some(history) = take(group, container) else {
            return;
        };
        let autoscalers = group.autoscalers.clone();
        for autoscaler in autoscalers {
            let Some(kept) = self.autoscalers.get_mut(autoscaler) else {
                continue;
            };
            kept.retired
                .entry(container.into())
                .or_default()
                .merge(&self.shapes, &history.aggregate);
            self.bound(autoscaler, |autoscaler| &mut autoscaler.retired);
        }
        self.drop_if_idle(id);
    }

    /// Takes over the stored history of a container of an autoscaler; false where there is no such
    /// autoscaler.
    pub(super) fn store(&mut self, autoscaler: &str, container: &str, history: Aggregate) -> bool {
        let Some(id) = self.autoscaler_id(autoscaler) else {
            return false;
        };
        let Some(autoscaler) = self.autoscalers.get_mut(id) else {
            return false;
        };
        autoscaler.stored.insert(container.into(), history);
        self.bound(id, |autoscaler| &mut autoscaler.stored);
        true
    }

    /// Forgets histories that an autoscaler keeps per container name, where there are more than
    /// [`MAX_KEPT`].
    fn bound(&mut self, id: u32, kept: fn(&mut Autoscaler) -> &mut BTreeMap<Box<str>, Aggregate>) {
        let Some(autoscaler) = self.autoscalers.get_mut(id) else {
            return;
        };
        if kept(autoscaler).len() <= MAX_KEPT {
            return;
        }
        let mut histories = std::mem::take(kept(autoscaler));
        for name in self.least_useful(id, &histories) {
            histories.remove(&name);
        }
        if let Some(autoscaler) = self.autoscalers.get_mut(id) {
            *kept(autoscaler) = histories;
        }
    }

    /// All but [`MAX_CONTAINERS`] of these names. Names that a pod has are left before others, then
    /// those measured last in any history.
    fn least_useful(&self, id: u32, histories: &BTreeMap<Box<str>, Aggregate>) -> Vec<Box<str>> {
        let Some(autoscaler) = self.autoscalers.get(id) else {
            return Vec::new();
        };
        let mut ranks: BTreeMap<Box<str>, (bool, Instant)> = histories
            .iter()
            .map(|(name, history)| (name.clone(), (false, history.last_sample())))
            .collect();
        for (name, history) in known(self, autoscaler) {
            if let Some((_, last)) = ranks.get_mut(name) {
                *last = history.last_sample().max(*last);
            }
        }
        let groups = autoscaler
            .groups
            .iter()
            .filter_map(|group| self.groups.get(*group));
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
