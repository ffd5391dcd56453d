//! Pods, groups of like pods and autoscalers of one namespace, and the links between groups and
//! autoscalers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use model::Labels;
use sizing::{ContainerState, MemoryRules, Shapes};

use super::ClusterStateSize;
use super::group::{Group, History};
use super::label_index::{LabelIndex, SelectorIndex};
use super::links::own_rules;
use super::pod::{Pod, PodSpec};
use super::slab::Slab;
use super::vpa::{Autoscaler, AutoscalerSpec};

/// State of one namespace.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    /// Rules of containers without per-VPA rules.
    pub(super) default_rules: MemoryRules,
    pod_ids: HashMap<Box<str>, u32>,
    pub(super) pods: Slab<Pod>,
    pub(super) group_ids: HashMap<Arc<Labels>, u32>,
    pub(super) groups: Slab<Group>,
    pub(super) group_index: LabelIndex,
    autoscaler_ids: HashMap<Box<str>, u32>,
    pub(super) autoscalers: Slab<Autoscaler>,
    pub(super) autoscaler_index: SelectorIndex,
    /// Number of changes of autoscalers, which orders them.
    changes: u64,
    /// Number of autoscalers with their own sizing policy: zero in most namespaces.
    pub(super) per_vpa_policies: usize,
    /// Histogram parameters.
    pub(super) shapes: Shapes,
    /// Upper bound of the number of histories without pods.
    pub(super) idle: usize,
}

impl Namespace {
    pub(super) fn new(default_rules: MemoryRules, shapes: Shapes) -> Self {
        Self {
            default_rules,
            pod_ids: HashMap::new(),
            pods: Slab::default(),
            group_ids: HashMap::new(),
            groups: Slab::default(),
            group_index: LabelIndex::default(),
            autoscaler_ids: HashMap::new(),
            autoscalers: Slab::default(),
            autoscaler_index: SelectorIndex::default(),
            changes: 0,
            per_vpa_policies: 0,
            shapes,
            idle: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pods.len() + self.groups.len() + self.autoscalers.len() == 0
    }

    pub(super) fn size(&self) -> ClusterStateSize {
        ClusterStateSize {
            pods: self.pods.len(),
            label_sets: self.groups.len(),
            histories: self.groups.iter().map(|group| group.histories.len()).sum(),
            autoscalers: self.autoscalers.len(),
            index_entries: self.group_index.len() + self.autoscaler_index.len(),
        }
    }

    pub(super) fn slots(&self) -> usize {
        self.pods.slots() + self.groups.slots() + self.autoscalers.slots()
    }

    pub(super) fn pod_names(&self) -> impl Iterator<Item = &str> {
        self.pod_ids.keys().map(|name| &**name)
    }

    pub(super) fn autoscaler_names(&self) -> impl Iterator<Item = &str> {
        self.autoscaler_ids.keys().map(|name| &**name)
    }

    pub(super) fn autoscaler(&self, name: &str) -> Option<&Autoscaler> {
        self.autoscalers.get(*self.autoscaler_ids.get(name)?)
    }

    pub(super) fn autoscaler_mut(&mut self, name: &str) -> Option<&mut Autoscaler> {
        self.autoscalers.get_mut(*self.autoscaler_ids.get(name)?)
    }

    pub(super) fn autoscaler_id(&self, name: &str) -> Option<u32> {
        self.autoscaler_ids.get(name).copied()
    }

    pub(super) fn pod(&self, name: &str) -> Option<&Pod> {
        self.pods.get(*self.pod_ids.get(name)?)
    }

    /// The ids of a pod and its group.
    pub(super) fn pod_and_group(&self, name: &str) -> Option<(u32, u32)> {
        let id = *self.pod_ids.get(name)?;
        Some((id, self.pods.get(id)?.group))
    }

    /// The names of the autoscalers that select a pod.
    pub(super) fn autoscalers_of(&self, pod: &str) -> impl Iterator<Item = &str> {
        let group = self.pod(pod).and_then(|pod| self.groups.get(pod.group));
        let ids = group.into_iter().flat_map(|group| &group.autoscalers);
        ids.filter_map(|id| self.autoscalers.get(*id))
            .map(|autoscaler| &*autoscaler.name)
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
        if let Some(group) = self.groups.get_mut(group) {
            for container in &spec.containers {
                group.history(container, now, |linked| {
                    own_rules(&self.default_rules, &self.autoscalers, linked, container)
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
        let group = self.groups.get_mut(pod.group)?;
        let state = pod.container_mut(container)?;
        let rules =
            |linked: &[u32]| own_rules(&self.default_rules, &self.autoscalers, linked, container);
        Some((state, group.history(container, now, rules)))
    }

    /// Adds or updates an autoscaler. Its checkpoints stay, also if the selector changes.
    pub(super) fn apply_autoscaler(&mut self, name: &str, spec: AutoscalerSpec) {
        self.changes += 1;
        let id = match self.autoscaler_ids.get(name) {
            Some(id) => *id,
            None => self.add_autoscaler(name.into()),
        };
        let changes = self.changes;
        let Some(autoscaler) = self.autoscalers.get_mut(id) else {
            return;
        };
        if autoscaler.spec == spec {
            return;
        }
        autoscaler.changed = changes;
        let relink = autoscaler.spec.selector != spec.selector;
        let before = std::mem::replace(&mut autoscaler.spec, spec);
        self.per_vpa_policies += usize::from(autoscaler.spec.sizing.is_some());
        self.per_vpa_policies -= usize::from(before.sizing.is_some());
        autoscaler.reset_policy_history(before.sizing.as_deref());
        let mut groups = if relink {
            self.relink(id)
        } else {
            BTreeSet::new()
        };
        groups.extend(
            self.autoscalers
                .get(id)
                .into_iter()
                .flat_map(|autoscaler| &autoscaler.groups),
        );
        self.refresh_rules(groups);
    }

    pub(super) fn delete_autoscaler(&mut self, name: &str) {
        let Some(id) = self.autoscaler_ids.remove(name) else {
            return;
        };
        let groups = self.unlink(id);
        let removed = self.autoscalers.remove(id);
        self.per_vpa_policies -=
            usize::from(removed.is_some_and(|autoscaler| autoscaler.spec.sizing.is_some()));
        self.refresh_rules(groups);
    }

    fn add_pod(&mut self, name: Box<str>, group: u32) -> u32 {
        let id = self.pods.insert(Pod::new(group));
        self.pod_ids.insert(name, id);
        self.join_group(id, group);
        id
    }

    fn join_group(&mut self, pod: u32, group: u32) {
        if let Some(group) = self.groups.get_mut(group) {
            group.pods.push(pod);
        }
    }

    fn leave_group(&mut self, pod: u32, group: u32) {
        if let Some(group) = self.groups.get_mut(group) {
            group.pods.retain(|other| *other != pod);
        }
        self.drop_if_idle(group);
    }

    fn add_autoscaler(&mut self, name: Box<str>) -> u32 {
        let id = self.autoscalers.insert(Autoscaler {
            name: name.clone(),
            ..Autoscaler::default()
        });
        self.autoscaler_ids.insert(name, id);
        id
    }
}
