//! Pods, groups of like pods and VPAs of one namespace, and the links between groups and
//! VPAs.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::{Labels, Selector};
use sizing::{ContainerState, HistogramConfigs, MemoryRules};
use view::SelectorIndex;

use super::ClusterStateSize;
use super::group::{Group, History};
use super::links::{own_rules, touched};
use super::pod::{Pod, PodSpec};
use super::selection::Selection;
use super::slab::Slab;
use super::vpa::{Vpa, VpaSpec};

/// VPAs by name.
pub(super) type Vpas = HashMap<Arc<str>, Vpa>;

/// State of one namespace.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    /// Rules of containers without per-VPA rules.
    pub(super) default_rules: MemoryRules,
    /// Pods by name.
    pub(super) pods: HashMap<Arc<str>, Pod>,
    pub(super) group_ids: HashMap<Arc<Labels>, u32>,
    pub(super) groups: Slab<Group>,
    pub(super) vpas: Vpas,
    pub(super) selection_ids: HashMap<Selector, u32>,
    pub(super) selections: Slab<Selection>,
    pub(super) selector_index: SelectorIndex,
    /// Number of changes of VPAs, which orders them.
    changes: u64,
    /// Number of VPAs with their own sizing policy: zero in most namespaces.
    pub(super) per_vpa_policies: usize,
    /// Histogram parameters.
    pub(super) shapes: HistogramConfigs,
    /// Upper bound of the number of histories without pods.
    pub(super) idle: usize,
}

impl Namespace {
    pub(super) fn new(default_rules: MemoryRules, shapes: HistogramConfigs) -> Self {
        Self {
            default_rules,
            pods: HashMap::new(),
            group_ids: HashMap::new(),
            groups: Slab::default(),
            vpas: Vpas::new(),
            selection_ids: HashMap::new(),
            selections: Slab::default(),
            selector_index: SelectorIndex::default(),
            changes: 0,
            per_vpa_policies: 0,
            shapes,
            idle: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pods.len() + self.groups.len() + self.vpas.len() == 0
    }

    pub(super) fn size(&self) -> ClusterStateSize {
        ClusterStateSize {
            pods: self.pods.len(),
            label_sets: self.groups.len(),
            histories: self.groups.iter().map(|group| group.histories.len()).sum(),
            vpas: self.vpas.len(),
            index_entries: self.selector_index.len(),
        }
    }

    pub(super) fn slots(&self) -> usize {
        self.pods.len() + self.groups.slots() + self.vpas.len() + self.selections.slots()
    }

    /// The names of the VPAs that select a pod.
    pub(super) fn vpas_of(&self, pod: &str) -> impl Iterator<Item = &Arc<str>> {
        let group = self.pods.get(pod);
        let group = group.and_then(|pod| self.groups.get(pod.group));
        let selections = group.into_iter().flat_map(|group| &group.selections);
        let selections = selections.filter_map(|id| self.selections.get(*id));
        selections.flat_map(|selection| &selection.vpas)
    }

    /// Whether a VPA selects pods with these labels.
    pub(super) fn selects(&self, labels: &Labels) -> bool {
        let candidates = self.selector_index.candidates(labels).into_iter();
        let mut candidates = candidates.filter_map(|id| self.selections.get(id));
        candidates.any(|selection| selection.selector.matches(labels))
    }

    /// Adds or updates a pod.
    pub(super) fn apply_pod(&mut self, spec: PodSpec, now: Timestamp) {
        let group = self.group_of(spec.labels);
        let known = self.pods.get_key_value(&*spec.name);
        let before = known.map(|(_, pod)| pod.group);
        let name = known.map_or_else(|| spec.name.into(), |(name, _)| Arc::clone(name));
        let pod = self.pods.entry(Arc::clone(&name)).or_default();
        pod.group = group;
        pod.object = spec.object;
        pod.update(spec.phase, &spec.containers, spec.init_containers);
        if before != Some(group) {
            if let Some(before) = before {
                self.leave_group(&name, before);
            }
            self.change_pods(group, |pods| pods.push(name));
            if before.is_some() {
                self.may_be_idle(spec.containers.len());
            }
        }
        if let Some(group) = touched(&mut self.groups, &mut self.selections, group) {
            for container in &spec.containers {
                let vpas = (&self.selections, &self.vpas);
                group.history(container, now, |ids| {
                    own_rules(&self.default_rules, vpas, ids, container)
                });
            }
        }
    }

    pub(super) fn delete_pod(&mut self, name: &str) {
        if let Some((name, pod)) = self.pods.remove_entry(name) {
            self.leave_group(&name, pod.group);
            self.may_be_idle(pod.containers().count());
        }
    }

    /// A container and its history, which is created if missing.
    pub(super) fn container(
        &mut self,
        pod: &str,
        container: &str,
        now: Timestamp,
    ) -> Option<(&mut ContainerState, &mut History)> {
        let pod = self.pods.get_mut(pod)?;
        let group = touched(&mut self.groups, &mut self.selections, pod.group)?;
        let state = pod.container_mut(container)?;
        let vpas = (&self.selections, &self.vpas);
        let rules = |ids: &[u32]| own_rules(&self.default_rules, vpas, ids, container);
        Some((state, group.history(container, now, rules)))
    }

    /// The selection of a VPA; `None` before its selector is known.
    pub(super) fn selection(&self, vpa: &Vpa) -> Option<&Selection> {
        self.selections.get(vpa.selection?)
    }

    /// The groups of pods that a VPA selects.
    pub(super) fn groups_of<'a>(&'a self, vpa: &Vpa) -> impl Iterator<Item = &'a Group> + use<'a> {
        let selection = self.selection(vpa).into_iter();
        selection.flat_map(|selection| selection.groups_in(&self.groups))
    }

    /// Adds or updates a VPA. Its checkpoints stay, also if the selector changes. `awaits_earlier`:
    /// whether a new history of its own sizing policy awaits earlier history.
    pub(super) fn apply_vpa(&mut self, name: &str, spec: VpaSpec, awaits_earlier: bool) {
        self.changes += 1;
        let vpa = self.vpas.entry(name.into()).or_default();
        if vpa.spec == spec {
            return;
        }
        vpa.changed = self.changes;
        let relink = vpa.spec.selector != spec.selector;
        let before = std::mem::replace(&mut vpa.spec, spec);
        self.per_vpa_policies += usize::from(vpa.spec.sizing.is_some());
        self.per_vpa_policies -= usize::from(before.sizing.is_some());
        vpa.reset_policy_history(before.sizing.as_deref(), awaits_earlier);
        let has_rules = before.has_rules() || vpa.spec.has_rules();
        if relink {
            self.relink(name);
        }
        if has_rules {
            self.refresh_rules();
        }
    }

    pub(super) fn delete_vpa(&mut self, name: &str) {
        self.unlink(name);
        let Some(removed) = self.vpas.remove(name) else {
            return;
        };
        self.per_vpa_policies -= usize::from(removed.spec.sizing.is_some());
        if removed.spec.has_rules() {
            self.refresh_rules();
        }
    }

    fn leave_group(&mut self, pod: &Arc<str>, group: u32) {
        self.change_pods(group, |pods| pods.retain(|other| !Arc::ptr_eq(other, pod)));
        self.drop_if_idle(group);
    }

    fn change_pods(&mut self, group: u32, change: impl FnOnce(&mut Vec<Arc<str>>)) {
        let Some(group) = self.groups.get_mut(group) else {
            return;
        };
        let before = group.pods.len();
        change(&mut group.pods);
        for id in &group.selections {
            if let Some(selection) = self.selections.get_mut(*id) {
                selection.pods = (selection.pods + group.pods.len()).saturating_sub(before);
            }
        }
    }
}
