//! Histories of the pods of one namespace, by label set and container name, and the VPAs that
//! select them.
//!
//! As upstream, a history belongs to a label set: it outlives pods and VPAs, and several VPAs may
//! select it. Groups of pods and selectors are linked when one of them appears.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::{Labels, Selector};
use sizing::{HistogramConfigs, MemoryRules, policy_for};
use view::SelectorIndex;

use super::selection::{Group, History, Selection};
use super::slab::Slab;
use super::vpa::Vpa;

type Vpas = HashMap<Arc<str>, Vpa>;

#[derive(Clone, Debug)]
pub(super) struct Histories {
    /// Rules of containers without per-VPA rules.
    pub(super) default_rules: MemoryRules,
    pub(super) shapes: HistogramConfigs,
    group_ids: HashMap<Arc<Labels>, u32>,
    pub(super) groups: Slab<Group>,
    pub(super) vpas: Vpas,
    selection_ids: HashMap<Arc<Selector>, u32>,
    pub(super) selections: Slab<Selection>,
    pub(super) selector_index: SelectorIndex,
    /// Number of VPAs with their own sizing policy: zero in most namespaces.
    pub(super) per_vpa_policies: usize,
    /// Number of VPAs that size pods as a whole: zero in most namespaces.
    pub(super) whole_pods: usize,
    /// Whether VPAs with per-VPA rules have changed since the rules of all containers were computed.
    pub(super) are_rules_outdated: bool,
}

impl Histories {
    pub(super) fn new(default_rules: MemoryRules, shapes: HistogramConfigs) -> Self {
        Self {
            default_rules,
            shapes,
            group_ids: HashMap::new(),
            groups: Slab::default(),
            vpas: Vpas::new(),
            selection_ids: HashMap::new(),
            selections: Slab::default(),
            selector_index: SelectorIndex::default(),
            per_vpa_policies: 0,
            whole_pods: 0,
            are_rules_outdated: false,
        }
    }

    /// Whether a VPA selects pods with these labels.
    pub(super) fn selects(&self, labels: &Labels) -> bool {
        let candidates = self.selector_index.candidates(labels).into_iter();
        let mut candidates = candidates.filter_map(|id| self.selections.get(id));
        candidates.any(|selection| selection.selector.matches(labels))
    }

    /// The group with these labels; created and linked if missing.
    pub(super) fn group_of(&mut self, labels: Labels) -> u32 {
        if let Some(id) = self.group_ids.get(&labels) {
            return *id;
        }
        let labels = Arc::new(labels);
        let id = self.groups.insert(Group {
            labels: Arc::clone(&labels),
            ..Group::default()
        });
        for candidate in self.selector_index.candidates(&labels) {
            self.link_if_selected(candidate, id);
        }
        self.group_ids.insert(labels, id);
        id
    }

    pub(super) fn change_pods(&mut self, group: u32, change: impl FnOnce(&mut Vec<Arc<str>>)) {
        let Some(group) = self.groups.get_mut(group) else {
            return;
        };
        let before = group.pods.len();
        change(&mut group.pods);
        for id in &group.selections {
            if let Some(selection) = self.selections.get_mut(*id) {
                selection.pods = (selection.pods + group.pods.len()).saturating_sub(before);
                selection.changed();
            }
        }
    }

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

    /// A group whose histories change, which drops the merged ones.
    pub(super) fn touched(&mut self, id: u32) -> Option<&mut Group> {
        let group = self.groups.get_mut(id)?;
        for id in &group.selections {
            if let Some(selection) = self.selections.get_mut(*id) {
                selection.changed();
            }
        }
        Some(group)
    }

    /// The history of a container in a group, which changes; created if missing.
    pub(super) fn history(
        &mut self,
        group: u32,
        container: &str,
        now: Timestamp,
    ) -> Option<&mut History> {
        self.refresh_rules();
        self.touched(group)?;
        let group = self.groups.get_mut(group)?;
        let index = group.position(container).unwrap_or_else(|| {
            let rules = own_rules(
                &self.default_rules,
                (&self.selections, &self.vpas),
                &group.selections,
                container,
            );
            group.histories.reserve_exact(1);
            let history = History::new(now, rules);
            group.histories.push((container.into(), history));
            group.histories.len() - 1
        });
        Some(&mut group.histories[index].1)
    }

    /// Links a VPA without a selection to the groups that it selects.
    pub(super) fn link(&mut self, name: &str) {
        let Some(vpa) = self.vpas.get_mut(name) else {
            return;
        };
        let known = self.selection_ids.get(&vpa.spec.selector).copied();
        let id = known.unwrap_or_else(|| {
            let selector = Arc::new(vpa.spec.selector.clone());
            let id = self
                .selections
                .insert(Selection::new(Arc::clone(&selector)));
            self.selector_index.insert(&selector, id);
            self.selection_ids.insert(selector, id);
            id
        });
        (vpa.selection, vpa.linked) = (Some(id), vpa.changed);
        if let Some(selection) = self.selections.get_mut(id) {
            selection.vpas.insert(vpa.linked, name.into());
        }
        if known.is_none() {
            for group in self.groups.ids().collect::<Vec<_>>() {
                self.link_if_selected(id, group);
            }
        }
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
        let link = vpa.and_then(|vpa| Some((vpa.selection.take()?, vpa.linked)));
        let Some((id, linked)) = link else {
            return;
        };
        if let Some(selection) = self.selections.get_mut(id) {
            selection.vpas.remove(&linked);
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

    /// The rules of a container in a group; the default of an unknown one.
    pub(super) fn rules_of(&self, group: &Group, container: &str) -> MemoryRules {
        let rules = match group.position(container) {
            Some(_) if self.are_rules_outdated => {
                let vpas = (&self.selections, &self.vpas);
                own_rules(&self.default_rules, vpas, &group.selections, container)
            }
            Some(index) => group.histories[index].1.rules.clone(),
            None => None,
        };
        rules.map_or(self.default_rules, |rules| *rules)
    }

    /// Recomputes outdated rules of all containers, once after any number of changes.
    pub(super) fn refresh_rules(&mut self) {
        if !std::mem::take(&mut self.are_rules_outdated) {
            return;
        }
        let vpas = (&self.selections, &self.vpas);
        for group in self.groups.iter_mut() {
            for (container, history) in &mut group.histories {
                history.rules = own_rules(&self.default_rules, vpas, &group.selections, container);
            }
        }
    }
}

pub(super) fn names<'a>(
    selections: &'a Slab<Selection>,
    ids: &'a [u32],
) -> impl Iterator<Item = &'a Arc<str>> {
    let selections = ids.iter().filter_map(|id| selections.get(*id));
    selections.flat_map(|selection| selection.vpas.values())
}

/// The rules of the VPAs of these selections for a container, if they differ from the default. The last
/// changed VPA wins.
fn own_rules(
    default: &MemoryRules,
    (selections, vpas): (&Slab<Selection>, &Vpas),
    ids: &[u32],
    container: &str,
) -> Option<Box<MemoryRules>> {
    let linked = names(selections, ids).filter_map(|name| vpas.get(name));
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
