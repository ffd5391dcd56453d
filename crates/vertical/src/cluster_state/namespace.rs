//! Pods, groups of like pods and VPAs of one namespace, and the links between groups and
//! VPAs.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::{Labels, Selector};
use sizing::{ContainerState, HistogramConfigs, MemoryRules};

use super::ClusterStateSize;
use super::group::{Group, History};
use super::label_index::{LabelIndex, SelectorIndex};
use super::links::{own_rules, touched};
use super::pod::{Pod, PodSpec};
use super::selection::Selection;
use super::slab::Slab;
use super::vpa::{Vpa, VpaSpec};

/// State of one namespace.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    /// Rules of containers without per-VPA rules.
    pub(super) default_rules: MemoryRules,
    pod_ids: HashMap<Arc<str>, u32>,
    pub(super) pods: Slab<Pod>,
    pub(super) group_ids: HashMap<Arc<Labels>, u32>,
    pub(super) groups: Slab<Group>,
    pub(super) group_index: LabelIndex,
    vpa_ids: HashMap<Box<str>, u32>,
    pub(super) vpas: Slab<Vpa>,
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
            pod_ids: HashMap::new(),
            pods: Slab::default(),
            group_ids: HashMap::new(),
            groups: Slab::default(),
            group_index: LabelIndex::default(),
            vpa_ids: HashMap::new(),
            vpas: Slab::default(),
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
            index_entries: self.group_index.len() + self.selector_index.len(),
        }
    }

    pub(super) fn slots(&self) -> usize {
        self.pods.slots() + self.groups.slots() + self.vpas.slots() + self.selections.slots()
    }

    pub(super) fn pod_names(&self) -> impl Iterator<Item = &str> {
        self.pod_ids.keys().map(|name| &**name)
    }

    pub(super) fn vpa_names(&self) -> impl Iterator<Item = &str> {
        self.vpa_ids.keys().map(|name| &**name)
    }

    pub(super) fn vpa(&self, name: &str) -> Option<&Vpa> {
        self.vpas.get(*self.vpa_ids.get(name)?)
    }

    pub(super) fn vpa_mut(&mut self, name: &str) -> Option<&mut Vpa> {
        self.vpas.get_mut(*self.vpa_ids.get(name)?)
    }

    pub(super) fn vpa_id(&self, name: &str) -> Option<u32> {
        self.vpa_ids.get(name).copied()
    }

    pub(super) fn pod(&self, name: &str) -> Option<&Pod> {
        self.pods.get(*self.pod_ids.get(name)?)
    }

    /// The ids of a pod and its group.
    pub(super) fn pod_and_group(&self, name: &str) -> Option<(u32, u32)> {
        let id = *self.pod_ids.get(name)?;
        Some((id, self.pods.get(id)?.group))
    }

    /// The names of the VPAs that select a pod.
    pub(super) fn vpas_of(&self, pod: &str) -> impl Iterator<Item = &str> {
        let group = self.pod(pod).and_then(|pod| self.groups.get(pod.group));
        let vpas = group
            .into_iter()
            .flat_map(|group| self.vpas_of_group(group));
        vpas.map(|vpa| &*vpa.name)
    }

    /// Adds or updates a pod.
    pub(super) fn apply_pod(&mut self, spec: PodSpec, now: Timestamp) {
        let group = self.group_of(spec.labels);
        let id = match self.pod_ids.get(&*spec.name) {
            Some(id) => *id,
            None => self.add_pod(spec.name.into(), group),
        };
        let Some(pod) = self.pods.get_mut(id) else {
            return;
        };
        let old = std::mem::replace(&mut pod.group, group);
        pod.update(spec.phase, &spec.containers, spec.init_containers);
        if old != group {
            self.leave_group(id, old);
            self.join_group(id, group);
            self.may_be_idle(spec.containers.len());
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
        let Some(id) = self.pod_ids.remove(name) else {
            return;
        };
        if let Some(pod) = self.pods.remove(id) {
            self.leave_group(id, pod.group);
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
        let pod = self.pods.get_mut(*self.pod_ids.get(pod)?)?;
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
        let id = match self.vpa_ids.get(name) {
            Some(id) => *id,
            None => self.add_vpa(name.into()),
        };
        let changes = self.changes;
        let Some(vpa) = self.vpas.get_mut(id) else {
            return;
        };
        if vpa.spec == spec {
            return;
        }
        vpa.changed = changes;
        let relink = vpa.spec.selector != spec.selector;
        let before = std::mem::replace(&mut vpa.spec, spec);
        self.per_vpa_policies += usize::from(vpa.spec.sizing.is_some());
        self.per_vpa_policies -= usize::from(before.sizing.is_some());
        vpa.reset_policy_history(before.sizing.as_deref(), awaits_earlier);
        let has_rules = before.has_rules() || vpa.spec.has_rules();
        let groups = if relink {
            self.relink(id)
        } else {
            let selection = vpa.selection.and_then(|id| self.selections.get(id));
            selection
                .map(|selection| selection.groups.clone())
                .unwrap_or_default()
        };
        if has_rules {
            self.refresh_rules(groups);
        }
    }

    pub(super) fn delete_vpa(&mut self, name: &str) {
        let Some(id) = self.vpa_ids.remove(name) else {
            return;
        };
        let groups = self.unlink(id);
        let Some(removed) = self.vpas.remove(id) else {
            return;
        };
        self.per_vpa_policies -= usize::from(removed.spec.sizing.is_some());
        if removed.spec.has_rules() {
            self.refresh_rules(groups);
        }
    }

    fn add_pod(&mut self, name: Box<str>, group: u32) -> u32 {
        let name: Arc<str> = name.into();
        let id = self.pods.insert(Pod::new(Arc::clone(&name), group));
        self.pod_ids.insert(name, id);
        self.join_group(id, group);
        id
    }

    fn join_group(&mut self, pod: u32, group: u32) {
        self.change_pods(group, |pods| pods.push(pod));
    }

    fn leave_group(&mut self, pod: u32, group: u32) {
        self.change_pods(group, |pods| pods.retain(|other| *other != pod));
        self.drop_if_idle(group);
    }

    fn change_pods(&mut self, group: u32, change: impl FnOnce(&mut Vec<u32>)) {
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

    fn add_vpa(&mut self, name: Box<str>) -> u32 {
        let id = self.vpas.insert(Vpa {
            name: name.clone(),
            ..Vpa::default()
        });
        self.vpa_ids.insert(name, id);
        id
    }
}
