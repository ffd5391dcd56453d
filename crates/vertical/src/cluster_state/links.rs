//! Links between groups of pods and the autoscalers that select them, updated from both sides.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::Labels;
use sizing::{MemoryRules, policy_for};

use super::group::Group;
use super::namespace::Namespace;
use super::slab::Slab;
use super::vpa::Autoscaler;

impl Namespace {
    /// Drops a group that has neither pods nor history.
    pub(super) fn drop_if_idle(&mut self, id: u32) {
        if !self.groups.get(id).is_some_and(Group::is_idle) {
            return;
        }
        let Some(group) = self.groups.remove(id) else {
            return;
        };
        self.group_ids.remove(&group.labels);
        self.group_index.remove(&group.labels, id);
        for autoscaler in group.autoscalers {
            if let Some(autoscaler) = self.autoscalers.get_mut(autoscaler) {
                autoscaler.groups.remove(&id);
            }
        }
    }

    /// The group with these labels; created and linked if missing.
    pub(super) fn group_of(&mut self, labels: Labels) -> u32 {
        if let Some(id) = self.group_ids.get(&labels) {
            return *id;
        }
        let labels = Arc::new(labels);
        let id = self.groups.insert(Group::new(Arc::clone(&labels)));
        self.group_index.insert(&labels, id);
        for candidate in self.autoscaler_index.candidates(&labels) {
            self.link_if_selected(candidate, id);
        }
        self.group_ids.insert(labels, id);
        id
    }

    /// Links an autoscaler to the groups that it selects. Returns the previously linked groups.
    pub(super) fn relink(&mut self, id: u32) -> BTreeSet<u32> {
        let before = self.unlink(id);
        self.link(id);
        before
    }

    fn link(&mut self, id: u32) {
        let Some(autoscaler) = self.autoscalers.get_mut(id) else {
            return;
        };
        autoscaler.entry = self.autoscaler_index.insert(&autoscaler.spec.selector, id);
        let candidates = self.group_index.candidates(&autoscaler.spec.selector);
        for group in candidates.unwrap_or_else(|| self.groups.ids().collect()) {
            self.link_if_selected(id, group);
        }
    }

    fn link_if_selected(&mut self, autoscaler_id: u32, group_id: u32) {
        let (Some(autoscaler), Some(group)) = (
            self.autoscalers.get_mut(autoscaler_id),
            self.groups.get_mut(group_id),
        ) else {
            return;
        };
        if autoscaler.spec.selector.matches(&group.labels) {
            autoscaler.groups.insert(group_id);
            group.autoscalers.push(autoscaler_id);
        }
    }

    pub(super) fn unlink(&mut self, id: u32) -> BTreeSet<u32> {
        let Some(autoscaler) = self.autoscalers.get_mut(id) else {
            return BTreeSet::new();
        };
        self.autoscaler_index.remove(&autoscaler.entry, id);
        let groups = std::mem::take(&mut autoscaler.groups);
        for group in &groups {
            if let Some(group) = self.groups.get_mut(*group) {
                group.autoscalers.retain(|other| *other != id);
            }
        }
        groups
    }

    /// Recomputes the per-VPA rules of these groups' containers.
    pub(super) fn refresh_rules(&mut self, groups: BTreeSet<u32>) {
        for id in groups {
            let Some(group) = self.groups.get_mut(id) else {
                continue;
            };
            for (container, history) in &mut group.histories {
                history.rules = own_rules(
                    &self.default_rules,
                    &self.autoscalers,
                    &group.autoscalers,
                    container,
                );
            }
        }
    }
}

/// The rules of the linked autoscalers for a container, if they differ from the default. The last
/// changed autoscaler wins.
pub(super) fn own_rules(
    default: &MemoryRules,
    autoscalers: &Slab<Autoscaler>,
    linked: &[u32],
    container: &str,
) -> Option<Box<MemoryRules>> {
    let mut linked: Vec<_> = linked
        .iter()
        .filter_map(|id| autoscalers.get(*id))
        .collect();
    linked.sort_by_key(|autoscaler| autoscaler.changed);
    let mut rules = *default;
    for policy in linked
        .iter()
        .filter_map(|autoscaler| policy_for(&autoscaler.spec.policies, container))
    {
        policy.overlay(&mut rules);
    }
    (rules != *default).then(|| Box::new(rules))
}
