//! The join of pods, workloads, VPA objects and disruption budgets, kept from pass to pass.
//!
//! A change of a pod, of a status or of a number of replicas marks the VPA objects that it concerns.
//! After any other change the index of the namespace is built anew, with all its VPA objects marked.

mod namespace;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use api::vpa::NodeGroup;
use jiff::Timestamp;

use crate::changes::ClusterChanges;
use crate::limits::DisruptionBudget;
use crate::limits::LimitRange;
use crate::limits::Quota;
use crate::pod::Pod;
use crate::scale::{ReadScale, Scale};
use crate::table::{Change, ObjectKey, changed_keys};
use crate::view::{Namespace as Object, View};
use crate::vpa::Vpa;
use crate::workload_controller::Owner;
use crate::workload_controller::{Controller, WellKnown};
use namespace::Namespace;

pub use namespace::{BudgetPods, VpaPods};

/// The order of VPA objects: by creation time in whole seconds, then by name and namespace.
pub type VpaOrder = (Option<Timestamp>, String, String);

#[derive(Clone, Copy)]
pub struct MatchedScope<'a> {
    /// Whether a VPA object controls pods. Others with the same target take no precedence.
    pub vpa: &'a dyn Fn(&Vpa) -> bool,
    /// Whether a pod counts although no VPA object controls it.
    pub pod: &'a dyn Fn(&Pod) -> bool,
}

/// The index of all namespaces with objects that are matched.
#[derive(Debug, Clone, Default)]
pub struct Matched {
    namespaces: BTreeMap<String, Namespace>,
    /// VPA objects that were removed from the index.
    removed: Vec<VpaOrder>,
}

impl Matched {
    /// Builds the index of all namespaces, with all VPA objects marked.
    pub fn build(view: &View, scope: MatchedScope<'_>) -> Self {
        let mut matched = Self::default();
        let named = view.namespaces.iter().map(|namespace| &namespace.name);
        let with_vpas = view.vpas.iter().map(|vpa| &vpa.key.namespace);
        for namespace in named.chain(with_vpas).collect::<BTreeSet<_>>() {
            matched.rebuild(namespace, view, scope);
        }
        matched
    }

    /// Takes in changes, and marks the VPA objects that they concern.
    pub fn update(&mut self, view: &View, changes: &ClusterChanges, scope: MatchedScope<'_>) {
        for namespace in namespaces_to_rebuild(changes) {
            let before = self.namespaces.remove(namespace);
            let before = before.into_iter().flat_map(|before| before.vpas);
            self.removed.extend(before.map(|vpa_pods| vpa_pods.order));
            self.rebuild(namespace, view, scope);
        }
        for vpa in changes.vpas.iter().filter_map(|change| change.new.as_ref()) {
            if let Some(namespace) = self.namespaces.get_mut(&vpa.key.namespace) {
                namespace.set_vpa(vpa);
            }
        }
        let budgets = changes.budgets.iter();
        for budget in budgets.filter_map(|change| change.new.as_ref()) {
            if let Some(namespace) = self.namespaces.get_mut(&budget.key.namespace) {
                namespace.set_budget(budget);
            }
        }
        for change in &changes.pods {
            let namespace = change.sides().next().map(|pod| &pod.key.namespace);
            if let Some(namespace) = namespace.and_then(|name| self.namespaces.get_mut(name)) {
                namespace.change_pod(view, change.old.as_ref(), change.new.as_ref());
            }
        }
        let nodes = changes.nodes.iter().flat_map(Change::sides);
        let nodes: HashSet<&str> = nodes.map(|node| node.name.as_str()).collect();
        let owners = rescaled_owners(changes);
        if nodes.is_empty() && owners.is_empty() {
            return;
        }
        let is_concerned = |pod: &Arc<Pod>| {
            let owner = pod.owner.as_ref();
            let node = pod
                .running
                .as_ref()
                .and_then(|running| running.node.as_ref());
            node.is_some_and(|node| nodes.contains(node.as_str()))
                || owner.is_some_and(|owner| {
                    owners.contains(&[&*pod.key.namespace, &*owner.kind, &*owner.name])
                })
        };
        self.mark_if(|vpa_pods| vpa_pods.pods.values().any(is_concerned));
    }

    fn rebuild(&mut self, name: &str, view: &View, scope: MatchedScope<'_>) {
        if let Some(namespace) = Namespace::build(name, view, scope) {
            self.namespaces.insert(name.to_owned(), namespace);
        }
    }

    /// Marks the VPA object of a pod, and the budgets that cover it.
    pub fn mark_pod(&mut self, key: &ObjectKey) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace) {
            namespace.mark_pod(&key.name);
        }
    }

    pub fn mark_vpa(&mut self, namespace: &str, name: &str) {
        if let Some(namespace) = self.namespaces.get_mut(namespace) {
            namespace.mark_vpa(name);
        }
    }

    /// Marks the VPA objects for which `is_due` returns true.
    pub fn mark_if(&mut self, is_due: impl Fn(&VpaPods) -> bool) {
        for namespace in self.namespaces.values_mut() {
            namespace.mark_if(&is_due);
        }
    }

    /// Marks all VPA objects that share a budget with a marked one: a disruption of one pod leaves
    /// less for the others.
    pub fn expand_marks(&mut self) {
        self.namespaces
            .values_mut()
            .for_each(Namespace::expand_marks);
    }

    /// The marked VPA objects, in order.
    pub fn marked(&self) -> Vec<&VpaPods> {
        let mut marked: Vec<&VpaPods> = self
            .namespaces
            .values()
            .flat_map(Namespace::marked)
            .collect();
        marked.sort_unstable_by(|a, b| a.order.cmp(&b.order));
        marked
    }

    pub fn clear_marks(&mut self) {
        self.namespaces
            .values_mut()
            .for_each(Namespace::clear_marks);
    }

    /// Takes the VPA objects that were removed from the index.
    pub fn take_removed(&mut self) -> Vec<VpaOrder> {
        std::mem::take(&mut self.removed)
    }

    /// The budgets that cover a pod. One with an invalid selector may cover any pod.
    pub fn budgets_of(&self, pod: &ObjectKey) -> impl Iterator<Item = &BudgetPods> {
        let namespace = self.namespaces.get(&pod.namespace).into_iter();
        namespace.flat_map(|namespace| namespace.budgets_of(&pod.name))
    }
}

/// The namespaces whose index must be built anew: more than numbers and statuses have changed.
fn namespaces_to_rebuild(changes: &ClusterChanges) -> BTreeSet<&str> {
    let controllers = changes.controllers.iter().map(|(_, change)| change);
    let objects = changed_keys(&changes.vpas, same_specification)
        .chain(changed_keys(controllers, same_but_replicas))
        .chain(changed_keys(&changes.budgets, same_budget))
        .chain(changed_keys(&changes.limit_ranges, LimitRange::eq))
        .chain(changed_keys(&changes.quotas, Quota::eq));
    let scales = changed_keys(&changes.scales, same_scale_but_replicas);
    objects
        .map(|key| &key.namespace)
        .chain(scales.map(|key| &key.namespace))
        .chain(changed_keys(&changes.namespaces, same_annotations))
        .map(String::as_str)
        .collect()
}

fn same_specification(old: &Vpa, new: &Vpa) -> bool {
    old.created_at() == new.created_at() && same_selection(old, new)
}

/// Whether two states are of one VPA object, with the same specification and selected pods.
pub fn same_selection(old: &Vpa, new: &Vpa) -> bool {
    let group = |vpa| NodeGroup::annotation(vpa);
    old.uid() == new.uid()
        && old.object.spec == new.object.spec
        && group(&old.object) == group(&new.object)
}

/// Whether a budget is the same but for its status, which changes with each of its pods.
pub fn same_budget(old: &DisruptionBudget, new: &DisruptionBudget) -> bool {
    old.generation == new.generation && old.selector == new.selector
}

fn same_but_replicas(old: &Controller, new: &Controller) -> bool {
    old.selector == new.selector && old.owner == new.owner
}

fn same_scale_but_replicas(old: &ReadScale, new: &ReadScale) -> bool {
    fn parts(scale: &Scale) -> Option<(&String, &Option<Owner>)> {
        match scale {
            Scale::Found {
                selector, owner, ..
            } => Some((selector, owner)),
            Scale::NotFound { .. } | Scale::Failed { .. } => None,
        }
    }
    let [before, after] = [old, new].map(|read| parts(&read.scale));
    before == after && (before.is_some() || old.scale == new.scale)
}

fn same_annotations(old: &Object, new: &Object) -> bool {
    old.annotations == new.annotations
}

/// The owners of pods whose number of replicas may have changed, by namespace, kind and name.
fn rescaled_owners(changes: &ClusterChanges) -> HashSet<[&str; 3]> {
    let controllers = changes.controllers.iter().filter_map(|(kind, change)| {
        let key = &change.new.as_ref()?.key;
        Some([&*key.namespace, kind.kind(), &*key.name])
    });
    let scales = changes.scales.iter().filter_map(|change| {
        let key = &change.new.as_ref()?.key;
        Some([&*key.namespace, &*key.kind, &*key.name])
    });
    // A scale is valid only for the pods that it was read with.
    let pods = changes.pods.iter().flat_map(Change::sides);
    let pods = pods.filter_map(|pod| {
        let owner = pod.owner.as_ref()?;
        let is_custom = WellKnown::of(&owner.api_version, &owner.kind).is_none();
        is_custom.then_some([&*pod.key.namespace, &*owner.kind, &*owner.name])
    });
    controllers.chain(scales).chain(pods).collect()
}
