//! Links between groups of pods and the selectors of VPAs, updated from both sides.

use std::sync::Arc;

use model::{Labels, Selector};
use sizing::{MemoryRules, policy_for};

use super::group::Group;
use super::namespace::{Namespace, Vpas};
use super::selection::Selection;
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
        for selection in &group.selections {
            if let Some(selection) = self.selections.get_mut(*selection) {
                selection.groups.remove(&id);
                selection.changed();
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
        for candidate in self.selector_index.candidates(&labels) {
            self.link_if_selected(candidate, id);
        }
        self.group_ids.insert(labels, id);
        id
    }

    /// Links a VPA to the groups that it selects. History of deleted pods goes with the VPA.
    pub(super) fn relink(&mut self, name: &str) {
        let Some(vpa) = self.vpas.get_mut(name) else {
            return;
        };
        if let Some(before) = vpa.selection.and_then(|id| self.selections.get(id)) {
            for (container, history) in &before.retired {
                let stored = vpa.stored.entry(container.clone()).or_default();
                stored.merge(&self.shapes, history);
            }
        }
        let selector = vpa.spec.selector.clone();
        self.unlink(name);
        self.bound_stored(name);
        let id = match self.selection_ids.get(&selector) {
            Some(known) => *known,
            None => self.add_selection(selector),
        };
        if let Some(vpa) = self.vpas.get_mut(name) {
            vpa.selection = Some(id);
        }
        if let Some(selection) = self.selections.get_mut(id) {
            selection.vpas.push(name.into());
        }
    }

    fn add_selection(&mut self, selector: Selector) -> u32 {
        let id = self.selections.insert(Selection::new(selector.clone()));
        self.selector_index.insert(&selector, id);
        self.selection_ids.insert(selector, id);
        for group in self.groups.ids().collect::<Vec<_>>() {
            self.link_if_selected(id, group);
        }
        id
    }

    fn link_if_selected(&mut self, selection_id: u32, group_id: u32) {
        let selection = self.selections.get_mut(selection_id);
        let (Some(selection), Some(group)) = (selection, self.groups.get_mut(group_id)) else {
            return;
        };
        if selection.selector.matches(&group.labels) {
            selection.groups.insert(group_id);
            selection.pods += group.pods.len();
            selection.changed();
            group.selections.push(selection_id);
        }
    }

    /// Unlinks a VPA, and drops a selection without VPAs.
    pub(super) fn unlink(&mut self, name: &str) {
        let vpa = self.vpas.get_mut(name);
        let Some(id) = vpa.and_then(|vpa| vpa.selection.take()) else {
            return;
        };
        if let Some(selection) = self.selections.get_mut(id) {
            selection.vpas.retain(|other| **other != *name);
            if !selection.vpas.is_empty() {
                return;
            }
        }
        let Some(selection) = self.selections.remove(id) else {
            return;
        };
        self.selector_index.remove(&selection.selector, id);
        self.selection_ids.remove(&selection.selector);
        for group in &selection.groups {
            if let Some(group) = self.groups.get_mut(*group) {
                group.selections.retain(|other| *other != id);
            }
        }
    }

    /// Recomputes the per-VPA rules of all containers.
    pub(super) fn refresh_rules(&mut self) {
        let vpas = (&self.selections, &self.vpas);
        for group in self.groups.iter_mut() {
            for (container, history) in &mut group.histories {
                history.rules = own_rules(&self.default_rules, vpas, &group.selections, container);
            }
        }
    }

    /// The VPAs that select a group.
    pub(super) fn vpas_of_group<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a Vpa> {
        linked(&self.selections, &self.vpas, &group.selections)
    }
}

/// A group whose histories change, which drops the merged ones.
pub(super) fn touched<'a>(
    groups: &'a mut Slab<Group>,
    selections: &mut Slab<Selection>,
    id: u32,
) -> Option<&'a mut Group> {
    let group = groups.get_mut(id)?;
    for id in &group.selections {
        if let Some(selection) = selections.get_mut(*id) {
            selection.changed();
        }
    }
    Some(group)
}

/// The VPAs of these selections.
fn linked<'a>(
    selections: &'a Slab<Selection>,
    vpas: &'a Vpas,
    ids: &'a [u32],
) -> impl Iterator<Item = &'a Vpa> {
    let selections = ids.iter().filter_map(|id| selections.get(*id));
    let names = selections.flat_map(|selection| &selection.vpas);
    names.filter_map(|name| vpas.get(name))
}

/// The rules of the VPAs of these selections for a container, if they differ from the default. The last
/// changed VPA wins.
pub(super) fn own_rules(
    default: &MemoryRules,
    (selections, vpas): (&Slab<Selection>, &Vpas),
    ids: &[u32],
    container: &str,
) -> Option<Box<MemoryRules>> {
    let linked = linked(selections, vpas, ids);
    let mut linked: Vec<_> = linked.filter(|vpa| vpa.spec.has_rules()).collect();
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
