//! Links between groups of pods and the VPAs that select them, updated from both sides.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::Labels;
use sizing::{MemoryRules, policy_for};

use super::group::Group;
use super::namespace::Namespace;
use super::slab::Slab;
use super::vpa::Vpa;

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
        for vpa in group.vpas {
            if let Some(vpa) = self.vpas.get_mut(vpa) {
                vpa.groups.remove(&id);
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
        for candidate in self.vpa_index.candidates(&labels) {
            self.link_if_selected(candidate, id);
        }
        self.group_ids.insert(labels, id);
        id
    }

    /// Links a VPA to the groups that it selects. Returns the previously linked groups.
    pub(super) fn relink(&mut self, id: u32) -> BTreeSet<u32> {
        let before = self.unlink(id);
        self.link(id);
        before
    }

    fn link(&mut self, id: u32) {
        let Some(vpa) = self.vpas.get_mut(id) else {
            return;
        };
        vpa.entry = self.vpa_index.insert(&vpa.spec.selector, id);
        let candidates = self.group_index.candidates(&vpa.spec.selector);
        for group in candidates.unwrap_or_else(|| self.groups.ids().collect()) {
            self.link_if_selected(id, group);
        }
    }

    fn link_if_selected(&mut self, vpa_id: u32, group_id: u32) {
        let (Some(vpa), Some(group)) = (self.vpas.get_mut(vpa_id), self.groups.get_mut(group_id))
        else {
            return;
        };
        if vpa.spec.selector.matches(&group.labels) {
            vpa.groups.insert(group_id);
            group.vpas.push(vpa_id);
        }
    }

    pub(super) fn unlink(&mut self, id: u32) -> BTreeSet<u32> {
        let Some(vpa) = self.vpas.get_mut(id) else {
            return BTreeSet::new();
        };
        self.vpa_index.remove(&vpa.entry, id);
        let groups = std::mem::take(&mut vpa.groups);
        for group in &groups {
            if let Some(group) = self.groups.get_mut(*group) {
                group.vpas.retain(|other| *other != id);
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
                history.rules = own_rules(&self.default_rules, &self.vpas, &group.vpas, container);
            }
        }
    }
}

/// The rules of the linked VPAs for a container, if they differ from the default. The last
/// changed VPA wins.
pub(super) fn own_rules(
    default: &MemoryRules,
    vpas: &Slab<Vpa>,
    linked: &[u32],
    container: &str,
) -> Option<Box<MemoryRules>> {
    let mut linked: Vec<_> = linked.iter().filter_map(|id| vpas.get(*id)).collect();
    linked.sort_by_key(|vpa| vpa.changed);
    let mut rules = *default;
    for policy in linked
        .iter()
        .filter_map(|vpa| policy_for(&vpa.spec.policies, container))
    {
        policy.overlay(&mut rules);
    }
    (rules != *default).then(|| Box::new(rules))
}
