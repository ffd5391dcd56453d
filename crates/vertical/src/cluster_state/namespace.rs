//! Pods of one namespace with the state of their containers between samples, and the histories of
//! their label sets.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::{Labels, WHOLE_POD};
use sizing::{ContainerState, HistogramConfigs, MemoryRules};
use view::Phase;

use super::histories::{Histories, names};
use super::selection::{Group, History};
use super::vpa::VpaSpec;

/// Pod as passed to [`super::ClusterState::apply_pod`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSpec {
    pub namespace: String,
    pub name: String,
    pub labels: Labels,
    pub phase: Phase,
    pub containers: Vec<String>,
    /// The names of its init containers, whose samples are ignored.
    pub init_containers: Vec<String>,
    /// Its object; `None` in a replay of history.
    pub object: Option<Arc<view::Pod>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Pod {
    pub(super) group: u32,
    pub(super) phase: Phase,
    pub(super) object: Option<Arc<view::Pod>>,
    containers: Vec<(Box<str>, ContainerState)>,
    init_containers: Vec<String>,
}

impl Pod {
    /// Updates phase and containers. Containers that remain keep their state.
    pub(super) fn update(
        &mut self,
        phase: Phase,
        containers: &[String],
        init_containers: Vec<String>,
    ) {
        self.phase = phase;
        self.init_containers = init_containers;
        let remains = |name: &str| name == WHOLE_POD || containers.iter().any(|it| **it == *name);
        self.containers.retain(|(name, _)| remains(name));
        for container in containers {
            if self.container_mut(container).is_none() {
                self.containers.reserve_exact(1);
                self.containers
                    .push((container.as_str().into(), ContainerState::default()));
            }
        }
    }

    pub(super) fn containers(&self) -> impl Iterator<Item = (&str, &ContainerState)> {
        self.containers
            .iter()
            .map(|(name, container)| (&**name, container))
    }

    pub(super) fn has_container(&self, container: &str) -> bool {
        self.containers().any(|(name, _)| name == container)
    }

    pub(super) fn has_init_container(&self, container: &str) -> bool {
        self.init_containers.iter().any(|name| name == container)
    }

    pub(super) fn container_mut(&mut self, container: &str) -> Option<&mut ContainerState> {
        self.containers
            .iter_mut()
            .find(|(name, _)| **name == *container)
            .map(|(_, state)| state)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Namespace {
    pub(super) pods: HashMap<Arc<str>, Pod>,
    pub(super) histories: Histories,
    /// Number of changes of VPAs, which orders them.
    changes: u64,
    /// Upper bound of the number of histories without pods.
    pub(super) idle: usize,
}

impl Namespace {
    pub(super) fn new(default_rules: MemoryRules, shapes: HistogramConfigs) -> Self {
        Self {
            pods: HashMap::new(),
            histories: Histories::new(default_rules, shapes),
            changes: 0,
            idle: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pods.len() + self.histories.groups.len() + self.histories.vpas.len() == 0
    }

    pub(super) fn group(&self, pod: &Pod) -> Option<&Group> {
        self.histories.groups.get(pod.group)
    }

    pub(super) fn labels(&self, pod: &Pod) -> Option<&Arc<Labels>> {
        self.group(pod).map(|group| &group.labels)
    }

    pub(super) fn pods_of<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a Pod> {
        group.pods.iter().filter_map(|pod| self.pods.get(pod))
    }

    pub(super) fn apply_pod(&mut self, spec: PodSpec, now: Timestamp) {
        let group = self.histories.group_of(spec.labels);
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
            self.histories.change_pods(group, |pods| pods.push(name));
            if before.is_some() {
                self.may_be_idle(spec.containers.len());
            }
        }
        for container in &spec.containers {
            self.histories.history(group, container, now);
        }
    }

    pub(super) fn delete_pod(&mut self, name: &str) {
        if let Some((name, pod)) = self.pods.remove_entry(name) {
            self.leave_group(&name, pod.group);
            self.may_be_idle(pod.containers().count());
        }
    }

    fn leave_group(&mut self, pod: &Arc<str>, group: u32) {
        let leave = |pods: &mut Vec<Arc<str>>| pods.retain(|other| !Arc::ptr_eq(other, pod));
        self.histories.change_pods(group, leave);
        self.histories.drop_if_idle(group);
    }

    /// Whether a VPA sizes a pod as a whole.
    pub(super) fn sizes_whole(&self, pod: &str) -> bool {
        let Histories {
            selections, vpas, ..
        } = &self.histories;
        let is_whole = |name: &Arc<str>| vpas.get(name).is_some_and(|vpa| vpa.is_sized(WHOLE_POD));
        let group = || self.group(self.pods.get(pod)?);
        self.histories.whole_pods > 0
            && group().is_some_and(|group| names(selections, &group.selections).any(is_whole))
    }

    /// A container, or the pod as a whole if a VPA sizes it, and its history, which is created if missing.
    pub(super) fn container(
        &mut self,
        pod: &str,
        container: &str,
        now: Timestamp,
    ) -> Option<(&mut ContainerState, &mut History)> {
        let is_whole = container == WHOLE_POD && self.sizes_whole(pod);
        let pod = self.pods.get_mut(pod)?;
        if is_whole && !pod.has_container(container) {
            pod.containers
                .push((container.into(), ContainerState::default()));
        }
        let group = pod.group;
        let state = pod.container_mut(container)?;
        Some((state, self.histories.history(group, container, now)?))
    }

    /// Adds or updates a VPA. Its checkpoints stay, also if the selector changes. `awaits_earlier`:
    /// whether a new history of its own sizing policy awaits earlier history.
    pub(super) fn apply_vpa(&mut self, name: &str, spec: VpaSpec, awaits_earlier: bool) {
        self.changes += 1;
        let histories = &mut self.histories;
        let vpa = histories.vpas.entry(name.into()).or_default();
        if vpa.spec == spec {
            return;
        }
        vpa.changed = self.changes;
        let before = std::mem::replace(&mut vpa.spec, spec);
        histories.per_vpa_policies += usize::from(vpa.spec.sizing.is_some());
        histories.per_vpa_policies -= usize::from(before.sizing.is_some());
        histories.whole_pods += usize::from(vpa.spec.sizes_whole_pods());
        histories.whole_pods -= usize::from(before.sizes_whole_pods());
        vpa.reset_policy_history(before.sizing.as_deref(), awaits_earlier);
        let has_rules = before.has_rules() || vpa.spec.has_rules();
        if before.selector != vpa.spec.selector {
            self.relink(name);
        }
        self.histories.are_rules_outdated |= has_rules;
    }

    /// Links a VPA to the groups that it selects. History of deleted pods goes with the VPA.
    fn relink(&mut self, name: &str) {
        let histories = &mut self.histories;
        let Some(vpa) = histories.vpas.get_mut(name) else {
            return;
        };
        let before = vpa.selection.and_then(|id| histories.selections.get(id));
        for (container, history) in before.into_iter().flat_map(|before| &before.retired) {
            let stored = vpa.stored.entry(container.clone()).or_default();
            stored.merge(&histories.shapes, history);
        }
        histories.unlink(name);
        self.bound_stored(name);
        self.histories.link(name);
    }

    pub(super) fn delete_vpa(&mut self, name: &str) {
        self.histories.unlink(name);
        let Some(removed) = self.histories.vpas.remove(name) else {
            return;
        };
        self.histories.per_vpa_policies -= usize::from(removed.spec.sizing.is_some());
        self.histories.whole_pods -= usize::from(removed.spec.sizes_whole_pods());
        self.histories.are_rules_outdated |= removed.spec.has_rules();
    }
}
