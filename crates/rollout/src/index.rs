//! Index of VPA objects with their pods, and of disruption budgets with theirs, kept from pass to
//! pass.
//!
//! A change of a pod, of a status or of a number of replicas marks the VPA objects and budgets that
//! it concerns. After any other change the index of the namespace is built anew. The next pass
//! decides about the marked VPA objects.

mod candidates;
mod namespace;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use api::vpa::NodeGroup;
use jiff::Timestamp;
use view::{
    Change, Controller, DisruptionBudget, Namespace as Object, ObjectKey, ReadScale, Scale, View,
    Vpa,
};

use super::changes::ClusterChanges;
use super::settings::Settings;

use namespace::Namespace;
pub(super) use namespace::{BudgetId, BudgetPods, VpaPods};

/// The order of VPA objects: by creation time in whole seconds, then by name and namespace.
pub(super) type VpaOrder = (Option<Timestamp>, String, String);

/// Kind and name of an owner of pods.
type OwnerKey = (String, String);

/// The index of all namespaces with VPA objects that update pods.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    namespaces: BTreeMap<String, Namespace>,
    /// VPA objects that were removed from the index.
    removed: Vec<VpaOrder>,
    /// Unique identifiers of the owners of their pods.
    removed_owners: Vec<String>,
}

impl Index {
    /// Builds the index of all namespaces, with all VPA objects marked.
    pub(super) fn build(view: &View, settings: &Settings) -> Self {
        let mut index = Self::default();
        let mut last = None;
        for vpa in view.vpas.iter() {
            let namespace = vpa.key.namespace.as_str();
            if last.replace(namespace) != Some(namespace) {
                index.rebuild(namespace, view, settings);
            }
        }
        if settings.rebalancing.is_some() {
            for namespace in view.namespaces.iter() {
                if !index.namespaces.contains_key(&namespace.name) {
                    index.rebuild(&namespace.name, view, settings);
                }
            }
        }
        index
    }

    /// Takes in changes, and marks the VPA objects that they concern.
    pub(super) fn update(&mut self, view: &View, changes: &ClusterChanges, settings: &Settings) {
        for namespace in namespaces_to_rebuild(changes) {
            if let Some(before) = self.namespaces.remove(namespace) {
                self.removed
                    .extend(before.vpas.iter().map(|vpa_pods| vpa_pods.order.clone()));
                self.removed_owners
                    .extend(before.vpas.into_iter().flat_map(|vpa_pods| vpa_pods.owners));
            }
            self.rebuild(namespace, view, settings);
        }
        for vpa in changes.vpas.iter().filter_map(|change| change.new.as_ref()) {
            if let Some(namespace) = self.namespaces.get_mut(&vpa.key.namespace) {
                namespace.set_vpa(vpa);
            }
        }
        for budget in changes
            .budgets
            .iter()
            .filter_map(|change| change.new.as_ref())
        {
            if let Some(namespace) = self.namespaces.get_mut(&budget.key.namespace) {
                namespace.set_budget(budget);
            }
        }
        for Change { old, new } in &changes.pods {
            let Some(key) = old.as_ref().or(new.as_ref()).map(|pod| &pod.key) else {
                continue;
            };
            if let Some(namespace) = self.namespaces.get_mut(&key.namespace) {
                namespace.change_pod(view, old.as_ref(), new.as_ref());
            }
        }
        for (namespace, owners) in owners(changes) {
            if let Some(namespace) = self.namespaces.get_mut(namespace) {
                namespace.mark_if(|vpa_pods| {
                    vpa_pods
                        .pods
                        .values()
                        .filter_map(|pod| pod.owner.as_ref())
                        .any(|owner| {
                            owners
                                .iter()
                                .any(|(kind, name)| *kind == owner.kind && *name == owner.name)
                        })
                });
            }
        }
        let nodes: HashSet<&str> = changes
            .nodes
            .iter()
            .flat_map(|change| [&change.old, &change.new])
            .flatten()
            .map(|node| node.name.as_str())
            .collect();
        if !nodes.is_empty() {
            let is_there = |vpa_pods: &VpaPods| {
                let names = vpa_pods
                    .pods
                    .values()
                    .filter_map(|pod| pod.running.as_ref()?.node.as_deref());
                names.into_iter().any(|name| nodes.contains(name))
            };
            self.namespaces
                .values_mut()
                .for_each(|namespace| namespace.mark_if(is_there));
        }
        if !changes.recommendations.is_empty() {
            let has_another =
                |vpa_pods: &VpaPods| changes.recommendations.contains(vpa_pods.vpa.uid());
            self.namespaces
                .values_mut()
                .for_each(|namespace| namespace.mark_if(has_another));
        }
    }

    fn rebuild(&mut self, name: &str, view: &View, settings: &Settings) {
        if let Some(namespace) = Namespace::build(name, view, settings) {
            self.namespaces.insert(name.to_owned(), namespace);
        }
    }

    /// Marks the VPA object of a pod, and the budgets that cover it.
    pub(super) fn mark_pod(&mut self, key: &ObjectKey) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace) {
            namespace.mark_pod(&key.name);
        }
    }

    /// Marks a VPA object.
    pub(super) fn mark_vpa(&mut self, namespace: &str, name: &str) {
        if let Some(found) = self.namespaces.get_mut(namespace) {
            found.mark_vpa(name);
        }
    }

    /// Marks all VPA objects that share a budget with a marked one: a disruption of one pod leaves
    /// less for the others.
    pub(super) fn expand_marks(&mut self) {
        self.namespaces
            .values_mut()
            .for_each(Namespace::expand_marks);
    }

    /// The marked VPA objects, in order.
    pub(super) fn marked(&self) -> Vec<&VpaPods> {
        let mut marked: Vec<&VpaPods> = self
            .namespaces
            .values()
            .flat_map(Namespace::marked)
            .collect();
        marked.sort_unstable_by(|a, b| a.order.cmp(&b.order));
        marked
    }

    /// Takes the VPA objects that were removed from the index, and the unique identifiers of the
    /// owners of their pods.
    pub(super) fn take_removed(&mut self) -> (Vec<VpaOrder>, Vec<String>) {
        (
            std::mem::take(&mut self.removed),
            std::mem::take(&mut self.removed_owners),
        )
    }

    /// Records the owners of a VPA object's pods after a decision, and removes its mark.
    pub(super) fn mark_decided(&mut self, (_, name, namespace): &VpaOrder, owners: Vec<String>) {
        if let Some(found) = self.namespaces.get_mut(namespace) {
            found.mark_decided(name, owners);
        }
    }

    /// Removes the marks of budgets.
    pub(super) fn clear_budgets(&mut self) {
        self.namespaces
            .values_mut()
            .for_each(Namespace::clear_budgets);
    }

    /// The budgets that cover a pod.
    pub(super) fn covering<'a>(
        &'a self,
        key: &ObjectKey,
    ) -> impl Iterator<Item = BudgetId<'a>> + use<'a> {
        let found = self.namespaces.get_key_value(&key.namespace);
        let budgets = found
            .and_then(|(name, namespace)| Some((name.as_str(), namespace.covering(&key.name)?)));
        budgets
            .into_iter()
            .flat_map(|(name, budgets)| budgets.iter().map(move |index| (name, *index)))
    }

    /// A budget with the pods that it covers.
    pub(super) fn budget(&self, (namespace, index): BudgetId<'_>) -> Option<&BudgetPods> {
        self.namespaces.get(namespace)?.budgets.get(index)
    }
}

/// The namespaces whose index must be built anew: more than numbers and statuses have changed.
fn namespaces_to_rebuild(changes: &ClusterChanges) -> BTreeSet<&str> {
    fn sides<T>(change: &Change<T>) -> impl Iterator<Item = &Arc<T>> {
        change.old.iter().chain(&change.new)
    }
    fn differ<T>(change: &Change<T>, is_same: impl Fn(&T, &T) -> bool) -> bool {
        !matches!((&change.old, &change.new), (Some(old), Some(new)) if is_same(old, new))
    }
    let vpas = changes
        .vpas
        .iter()
        .filter(|change| differ(change, same_specification))
        .flat_map(sides);
    let controllers = changes.controllers.iter().map(|(_, change)| change);
    let controllers = controllers
        .filter(|change| differ(change, same_but_replicas))
        .flat_map(sides);
    let scales = changes
        .scales
        .iter()
        .filter(|change| differ(change, same_scale_but_replicas))
        .flat_map(sides);
    let budgets = changes
        .budgets
        .iter()
        .filter(|change| differ(change, same_budget))
        .flat_map(sides);
    let namespaces = changes
        .namespaces
        .iter()
        .filter(|change| differ(change, same_annotations))
        .flat_map(sides);
    let ranges = changes
        .limit_ranges
        .iter()
        .flat_map(sides)
        .map(|range| range.key.namespace.as_str());
    let quotas = changes
        .quotas
        .iter()
        .flat_map(sides)
        .map(|quota| quota.key.namespace.as_str());
    vpas.map(|vpa| vpa.key.namespace.as_str())
        .chain(controllers.map(|controller| controller.key.namespace.as_str()))
        .chain(scales.map(|scale| scale.key.namespace.as_str()))
        .chain(budgets.map(|budget| budget.key.namespace.as_str()))
        .chain(namespaces.map(|namespace| namespace.name.as_str()))
        .chain(ranges)
        .chain(quotas)
        .collect()
}

fn same_specification(old: &Vpa, new: &Vpa) -> bool {
    let made = |vpa: &Vpa| vpa.object.metadata.creation_timestamp.clone();
    old.uid() == new.uid() && made(old) == made(new) && same_selection(old, new)
}

/// Whether two states of a VPA object select the same pods and have the same specification.
pub(super) fn same_selection(old: &Vpa, new: &Vpa) -> bool {
    let group = |vpa| NodeGroup::annotation(vpa);
    old.object.spec == new.object.spec && group(&old.object) == group(&new.object)
}

/// Whether a budget is the same but for its status, which changes with each of its pods.
pub(super) fn same_budget(old: &DisruptionBudget, new: &DisruptionBudget) -> bool {
    old.generation == new.generation && old.selector == new.selector
}

fn same_but_replicas(old: &Controller, new: &Controller) -> bool {
    old.selector == new.selector && old.owner == new.owner
}

fn same_scale_but_replicas(old: &ReadScale, new: &ReadScale) -> bool {
    match (&old.scale, &new.scale) {
        (
            Scale::Found {
                selector: old_selector,
                owner: old_owner,
                replicas: _,
            },
            Scale::Found {
                selector,
                owner,
                replicas: _,
            },
        ) => old_selector == selector && old_owner == owner,
        (old, new) => old == new,
    }
}

fn same_annotations(old: &Object, new: &Object) -> bool {
    old.annotations == new.annotations
}

/// The owners whose number of replicas may have changed, by namespace.
fn owners(changes: &ClusterChanges) -> HashMap<&str, HashSet<OwnerKey>> {
    let mut owners: HashMap<&str, HashSet<OwnerKey>> = HashMap::new();
    for (kind, change) in &changes.controllers {
        if let Some(controller) = &change.new {
            let owner = (kind.kind().to_owned(), controller.key.name.clone());
            owners
                .entry(&controller.key.namespace)
                .or_default()
                .insert(owner);
        }
    }
    for scale in changes
        .scales
        .iter()
        .filter_map(|change| change.new.as_ref())
    {
        owners
            .entry(&scale.key.namespace)
            .or_default()
            .insert((scale.key.kind.clone(), scale.key.name.clone()));
    }
    // A scale is valid only for the pods that it was read with.
    for pod in changes
        .pods
        .iter()
        .flat_map(|change| [&change.old, &change.new])
        .flatten()
    {
        if let Some(owner) = pod
            .owner
            .as_ref()
            .filter(|owner| view::WellKnown::of(&owner.api_version, &owner.kind).is_none())
        {
            owners
                .entry(&pod.key.namespace)
                .or_default()
                .insert((owner.kind.clone(), owner.name.clone()));
        }
    }
    owners
}
