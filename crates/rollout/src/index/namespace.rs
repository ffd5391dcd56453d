//! The index of one namespace: VPA objects and disruption budgets with their pods, and marks for
//! the next pass.
//!
//! Pods find their VPA object by the name of its target. The effort grows with the number of pods
//! and VPA objects, and not with their product. Source: upstream `pkg/utils/vpa/api.go`
//! (`GetControllingVPAForPod`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::vpa::{
    CrossVersionObjectReference, EffectiveUpdateMode, VerticalPodAutoscaler,
    VerticalPodAutoscalerSpec,
};
use model::{Labels, Requirement, Selector, Workload};
use view::{DisruptionBudget, Entry, ObjectKey, Owner, Pod, Table, View, Vpa, WellKnown, target};

use super::VpaOrder;
use super::candidates::{Candidates, topmost};
use crate::rebalance_annotation::opts_in;
use crate::settings::Settings;
use crate::startup_boost;

/// A VPA object with its live pods.
#[derive(Debug, Clone)]
pub(crate) struct VpaPods {
    /// The VPA object.
    pub(crate) vpa: Arc<Vpa>,
    /// Its place in the order of all VPA objects.
    pub(crate) order: VpaOrder,
    /// Pods that are bound to a node and not terminating, by name.
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
    /// Unique identifiers of the owners of these pods at the last decision, or of their shares.
    pub(crate) owners: Vec<String>,
    /// Whether other VPA objects control other pods of the same owners: those of other node groups.
    pub(crate) shares_owners: bool,
    selector: Selector,
}

/// A disruption budget with the live pods that it covers.
#[derive(Debug, Clone)]
pub(crate) struct BudgetPods {
    /// The budget.
    pub(crate) budget: Arc<DisruptionBudget>,
    /// Its pods, by name.
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
}

/// A budget: its namespace, and its index there.
pub(crate) type BudgetId<'a> = (&'a str, usize);

/// The VPA object that controls a pod, and the budgets that cover it.
#[derive(Debug, Clone, Default)]
struct PodMembership {
    vpa: Option<usize>,
    budgets: Vec<usize>,
}

/// The index of one namespace.
#[derive(Debug, Clone, Default)]
pub(super) struct Namespace {
    /// In order.
    pub(super) vpas: Vec<VpaPods>,
    pub(super) budgets: Vec<BudgetPods>,
    /// The last one, of the pods that no VPA object controls; `None` where none may be moved.
    unmanaged: Option<usize>,
    by_name: HashMap<String, usize>,
    /// By kind and name of the target.
    by_target: HashMap<String, HashMap<String, Candidates>>,
    budgets_by_name: HashMap<String, usize>,
    /// Budgets by one label that their selector requires.
    by_label: HashMap<String, HashMap<String, Vec<usize>>>,
    /// Budgets whose selector requires no single label.
    unlabelled: Vec<usize>,
    /// By pod name.
    memberships: HashMap<String, PodMembership>,
    marked: BTreeSet<usize>,
    marked_budgets: BTreeSet<usize>,
}

impl Namespace {
    /// Builds the index of a namespace; `None` without VPA objects that update pods and without pods
    /// that may be moved.
    pub(super) fn build(name: &str, view: &View, settings: &Settings) -> Option<Self> {
        let mut vpas: Vec<VpaPods> = in_namespace(&view.vpas, name)
            .filter(|vpa| updates_pods(vpa, settings))
            .filter_map(|vpa| match target::resolve_vpa(view, vpa) {
                target::Resolution::Pods(selector) => Some(VpaPods::new(vpa, selector)),
                target::Resolution::Unsupported { .. } | target::Resolution::Waiting(_) => None,
            })
            .collect();
        let moves_others = settings.rebalancing.is_some()
            && view
                .pods_in(name)
                .any(|pod| pod.is_live() && opts_in(pod, view));
        if vpas.is_empty() && !moves_others {
            return None;
        }
        vpas.sort_unstable_by(|a, b| a.order.cmp(&b.order));
        let unmanaged = moves_others.then_some(vpas.len());
        vpas.extend(unmanaged.map(|_| VpaPods::without_vpa(name)));
        let budgets = in_namespace(&view.disruption_budgets, name);
        let budgets = budgets.map(|budget| BudgetPods {
            budget: Arc::clone(budget),
            pods: BTreeMap::new(),
        });
        let marked = (0..vpas.len()).collect();
        let mut namespace = Self {
            vpas,
            budgets: budgets.collect(),
            marked,
            unmanaged,
            ..Self::default()
        };
        namespace.index_vpas();
        for (index, BudgetPods { budget, .. }) in namespace.budgets.iter().enumerate() {
            namespace
                .budgets_by_name
                .insert(budget.key.name.clone(), index);
            let indices = match required_label(budget) {
                Some((key, value)) => namespace
                    .by_label
                    .entry(key.to_owned())
                    .or_default()
                    .entry(value.to_owned())
                    .or_default(),
                None => &mut namespace.unlabelled,
            };
            indices.push(index);
        }
        let mut targets: HashMap<[&str; 3], Option<Workload<'_>>> = HashMap::new();
        for pod in view.pods_in(name).filter(|pod| pod.is_live()) {
            let target = pod.owner.as_ref().and_then(|owner| {
                *targets
                    .entry([&owner.api_version, &owner.kind, &owner.name])
                    .or_insert_with(|| topmost(view, name, owner))
            });
            let membership = namespace.membership(pod, target);
            namespace.insert_pod(pod, membership);
        }
        Some(namespace)
    }

    /// Fills the indices of VPA objects by name and by target.
    fn index_vpas(&mut self) {
        for (index, VpaPods { vpa, .. }) in self.vpas.iter().enumerate() {
            self.by_name.insert(vpa.key.name.clone(), index);
            let target = &vpa.object.spec.target_ref;
            let names = self.by_target.entry(target.kind.clone()).or_default();
            let candidates = names.entry(target.name.clone()).or_default();
            candidates.push(&vpa.object, index);
        }
        let targets = self.by_target.values().flat_map(HashMap::values);
        for index in targets.flat_map(Candidates::sharing) {
            self.vpas[index].shares_owners = true;
        }
    }

    /// Marks all VPA objects of a `DaemonSet` with node groups when the number of its live pods may
    /// have changed: the share of each one follows from the pods of the others.
    fn mark_shares(&mut self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>) {
        fn live(pod: Option<&Arc<Pod>>) -> Option<(Option<&Owner>, &Labels)> {
            let pod = pod.filter(|pod| pod.is_live())?;
            Some((pod.owner.as_ref(), &pod.labels))
        }
        let Some(targets) = self.by_target.get(WellKnown::DaemonSet.kind()) else {
            return;
        };
        if live(old) == live(new) {
            return;
        }
        let pods = old.into_iter().chain(new);
        let owners = pods.filter_map(|pod| pod.owner.as_ref());
        let owners = owners.filter(|owner| owner.kind == WellKnown::DaemonSet.kind());
        let candidates = owners.filter_map(|owner| targets.get(&owner.name));
        let sharing = candidates.flat_map(Candidates::sharing);
        self.marked
            .extend(sharing.filter(|index| !self.vpas[*index].pods.is_empty()));
    }

    /// The first VPA object of a target that selects a pod, or else the holder of pods without one,
    /// and the budgets that cover the pod.
    fn membership(&self, pod: &Pod, target: Option<Workload<'_>>) -> PodMembership {
        let selects = |index: &usize| {
            self.vpas
                .get(*index)
                .is_some_and(|found| found.selector.matches(&pod.labels))
        };
        let candidates =
            target.and_then(|target| self.by_target.get(target.kind)?.get(target.name));
        let vpa = candidates.and_then(|candidates| {
            let mut candidates = candidates.for_labels(&pod.labels);
            candidates.find(selects)
        });
        let labelled = pod
            .labels
            .iter()
            .filter_map(|(key, value)| self.by_label.get(key)?.get(value));
        let budgets = labelled
            .chain([&self.unlabelled])
            .flatten()
            .copied()
            .filter(|index| {
                let selector = self
                    .budgets
                    .get(*index)
                    .map(|budget_pods| &budget_pods.budget.selector);
                // One with an invalid selector may cover any pod.
                selector.is_some_and(|selector| {
                    selector
                        .as_ref()
                        .map_or(true, |selector| selector.matches(&pod.labels))
                })
            });
        PodMembership {
            vpa: vpa.or(self.unmanaged),
            budgets: budgets.collect(),
        }
    }

    fn insert_pod(&mut self, pod: &Arc<Pod>, membership: PodMembership) {
        let name = &pod.key.name;
        if let Some(vpa_pods) = membership.vpa.and_then(|index| self.vpas.get_mut(index)) {
            vpa_pods.pods.insert(name.clone(), Arc::clone(pod));
        }
        for index in &membership.budgets {
            if let Some(budget_pods) = self.budgets.get_mut(*index) {
                budget_pods.pods.insert(name.clone(), Arc::clone(pod));
            }
        }
        self.memberships.insert(name.clone(), membership);
    }

    fn remove_pod(&mut self, name: &str) -> Option<PodMembership> {
        let membership = self.memberships.remove(name)?;
        if let Some(vpa_pods) = membership.vpa.and_then(|index| self.vpas.get_mut(index)) {
            vpa_pods.pods.remove(name);
        }
        for index in &membership.budgets {
            if let Some(budget_pods) = self.budgets.get_mut(*index) {
                budget_pods.pods.remove(name);
            }
        }
        Some(membership)
    }

    /// Replaces a pod, and marks its VPA object and budgets before and after.
    pub(super) fn change_pod(
        &mut self,
        view: &View,
        old: Option<&Arc<Pod>>,
        new: Option<&Arc<Pod>>,
    ) {
        self.mark_shares(old, new);
        let mut before = None;
        if let Some(old) = old {
            self.mark_pod(&old.key.name);
            before = self.remove_pod(&old.key.name);
        }
        let Some(new) = new.filter(|pod| pod.is_live()) else {
            return;
        };
        let belongs_there = |old: &&Arc<Pod>| old.owner == new.owner && old.labels == new.labels;
        let membership = before
            .filter(|_| old.is_some_and(|old| belongs_there(&old)))
            .unwrap_or_else(|| {
                let owner = new.owner.as_ref();
                let target = owner.and_then(|owner| topmost(view, &new.key.namespace, owner));
                self.membership(new, target)
            });
        self.insert_pod(new, membership);
        self.mark_pod(&new.key.name);
    }

    /// Replaces a VPA object with a new status, and marks it.
    pub(super) fn set_vpa(&mut self, vpa: &Arc<Vpa>) {
        let index = self.by_name.get(&vpa.key.name).copied();
        if let Some(vpa_pods) = index.and_then(|index| self.vpas.get_mut(index)) {
            vpa_pods.vpa = Arc::clone(vpa);
            self.marked.extend(index);
        }
    }

    /// Replaces a budget with a new status, and marks it.
    pub(super) fn set_budget(&mut self, budget: &Arc<DisruptionBudget>) {
        let index = self.budgets_by_name.get(&budget.key.name).copied();
        if let Some(budget_pods) = index.and_then(|index| self.budgets.get_mut(index)) {
            budget_pods.budget = Arc::clone(budget);
            self.marked_budgets.extend(index);
        }
    }

    pub(super) fn mark_pod(&mut self, name: &str) {
        if let Some(PodMembership { vpa, budgets }) = self.memberships.get(name) {
            self.marked.extend(vpa);
            self.marked_budgets.extend(budgets);
        }
    }

    pub(super) fn mark_vpa(&mut self, name: &str) {
        self.marked.extend(self.by_name.get(name));
    }

    pub(super) fn mark_if(&mut self, is_due: impl Fn(&VpaPods) -> bool) {
        let due = self
            .vpas
            .iter()
            .enumerate()
            .filter(|(_, vpa_pods)| is_due(vpa_pods));
        self.marked.extend(due.map(|(index, _)| index));
    }

    /// Marks all VPA objects that share a budget with a marked one.
    pub(super) fn expand_marks(&mut self) {
        let mut vpas: Vec<usize> = self.marked.iter().copied().collect();
        let mut budgets: Vec<usize> = self.marked_budgets.iter().copied().collect();
        loop {
            if let Some(vpa_pods) = vpas.pop().map(|index| self.vpas.get(index)) {
                let names = vpa_pods
                    .into_iter()
                    .flat_map(|vpa_pods| vpa_pods.pods.keys());
                let covering = names
                    .filter_map(|name| self.memberships.get(name))
                    .flat_map(|membership| &membership.budgets);
                budgets.extend(covering.filter(|index| self.marked_budgets.insert(**index)));
            } else if let Some(budget_pods) = budgets.pop().map(|index| self.budgets.get(index)) {
                let names = budget_pods
                    .into_iter()
                    .flat_map(|budget_pods| budget_pods.pods.keys());
                let controlling = names.filter_map(|name| self.memberships.get(name)?.vpa);
                vpas.extend(controlling.filter(|index| self.marked.insert(*index)));
            } else {
                break;
            }
        }
    }

    pub(super) fn marked(&self) -> impl Iterator<Item = &VpaPods> {
        self.marked.iter().filter_map(|index| self.vpas.get(*index))
    }

    /// Records the owners of a VPA object's pods, and removes its mark.
    pub(super) fn mark_decided(&mut self, name: &str, owners: Vec<String>) {
        let Some(index) = self.by_name.get(name) else {
            return;
        };
        self.marked.remove(index);
        if let Some(vpa_pods) = self.vpas.get_mut(*index) {
            vpa_pods.owners = owners;
        }
    }

    pub(super) fn clear_budgets(&mut self) {
        self.marked_budgets.clear();
    }

    /// The budgets that cover a pod.
    pub(super) fn covering(&self, pod: &str) -> Option<&[usize]> {
        Some(&self.memberships.get(pod)?.budgets)
    }
}

impl VpaPods {
    fn new(vpa: &Arc<Vpa>, selector: Selector) -> Self {
        let ObjectKey { namespace, name } = vpa.key.clone();
        let created = vpa
            .object
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        let order = (created, name, namespace);
        Self {
            vpa: Arc::clone(vpa),
            order,
            pods: BTreeMap::new(),
            owners: Vec::new(),
            shares_owners: false,
            selector,
        }
    }
}

impl VpaPods {
    /// Whether these are the pods that no VPA object controls.
    pub(crate) fn is_unmanaged(&self) -> bool {
        self.vpa.key.name.is_empty()
    }

    /// A holder of the pods of a namespace that no VPA object controls: a VPA object without a name,
    /// a target and a recommendation.
    fn without_vpa(namespace: &str) -> Self {
        let spec = VerticalPodAutoscalerSpec {
            target_ref: CrossVersionObjectReference::default(),
            update_policy: None,
            resource_policy: None,
            recommenders: Vec::new(),
            startup_boost: None,
        };
        let vpa = Vpa {
            key: ObjectKey::new(namespace, ""),
            object: VerticalPodAutoscaler::new("", spec),
        };
        Self::new(&Arc::new(vpa), Selector::nothing())
    }
}

/// Whether a VPA object may update running pods.
fn updates_pods(vpa: &Vpa, settings: &Settings) -> bool {
    let spec = &vpa.object.spec;
    let is_passive = matches!(
        spec.effective_update_mode(),
        EffectiveUpdateMode::Off | EffectiveUpdateMode::Initial
    );
    !is_passive || (settings.startup_boost && startup_boost::is_configured(spec))
}

/// The objects of one namespace.
fn in_namespace<'a, T: Entry<Key = ObjectKey>>(
    table: &'a Table<T>,
    namespace: &str,
) -> impl Iterator<Item = &'a Arc<T>> {
    let objects = table.starting_at(ObjectKey::new(namespace, ""));
    objects.take_while(move |object| object.key().namespace == namespace)
}

/// A label that the selector requires.
fn required_label(budget: &DisruptionBudget) -> Option<(&str, &str)> {
    budget
        .selector
        .as_ref()
        .ok()?
        .requirements()
        .iter()
        .find_map(|requirement| match requirement {
            Requirement::In(key, values) if values.len() == 1 => {
                values.first().map(|value| (key.as_str(), value.as_str()))
            }
            _ => None,
        })
}
