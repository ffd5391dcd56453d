//! The index of one namespace: VPA objects and disruption budgets with their pods, and marks for
//! the next pass.
//!
//! Pods find their VPA object by the name of its target. The effort grows with the number of pods
//! and VPA objects, and not with their product. Source: upstream `pkg/utils/vpa/api.go`
//! (`GetControllingVPAForPod`).

use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map::RandomState};
use std::sync::Arc;

use api::vpa::{
    CrossVersionObjectReference, NodeGroup, VerticalPodAutoscaler, VerticalPodAutoscalerSpec,
};
use model::{Labels, Selector, Workload, WorkloadRef};

use super::{MatchedScope, VpaOrder};
use crate::limits::DisruptionBudget;
use crate::pod::Pod;
use crate::selector_index::SelectorIndex;
use crate::table::{Named, ObjectKey};
use crate::target;
use crate::view::View;
use crate::vpa::Vpa;
use crate::workload_controller::Owner;
use crate::workload_controller::WellKnown;

/// A VPA object with its live pods.
#[derive(Debug, Clone)]
pub struct VpaPods {
    pub vpa: Arc<Vpa>,
    /// Its place in the order of all VPA objects.
    pub order: VpaOrder,
    /// Pods that are bound to a node and not terminating, by name, with the containers that the VPA object
    /// sizes.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// Whether other VPA objects control other pods of the same owners: those of other node groups.
    pub shares_owners: bool,
    selector: Selector,
}

/// A disruption budget with the live pods that it covers.
#[derive(Debug, Clone)]
pub struct BudgetPods {
    pub budget: Arc<DisruptionBudget>,
    pub pods: BTreeMap<String, Arc<Pod>>,
}

/// The VPA object that controls a pod, and the budgets that cover it.
#[derive(Debug, Clone, Default)]
struct PodMembership {
    vpa: Option<usize>,
    budgets: Vec<usize>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Namespace {
    /// In order.
    pub(super) vpas: Vec<VpaPods>,
    budgets: Vec<BudgetPods>,
    /// The last one, of the pods that no VPA object controls; `None` where none of them counts.
    unmanaged: Option<usize>,
    by_name: HashMap<String, usize>,
    /// VPA objects by their target, those of node groups first, then the oldest first.
    by_target: hashbrown::HashMap<WorkloadRef, Vec<usize>, RandomState>,
    budget_selectors: SelectorIndex,
    /// By pod name.
    memberships: HashMap<String, PodMembership>,
    marked: BTreeSet<usize>,
    marked_budgets: BTreeSet<usize>,
}

impl Namespace {
    /// Builds the index of a namespace; `None` without objects that are matched.
    pub(super) fn build(name: &str, view: &View, scope: MatchedScope<'_>) -> Option<Self> {
        let vpas = view.vpas.in_namespace(name).filter(|vpa| (scope.vpa)(vpa));
        let mut vpas: Vec<VpaPods> = vpas
            .filter_map(|vpa| match target::resolve_vpa(view, vpa) {
                target::Resolution::Pods(selector) => Some(VpaPods::new(vpa, selector)),
                target::Resolution::Unsupported { .. } | target::Resolution::Waiting(_) => None,
            })
            .collect();
        let pods = || view.pods.in_namespace(name).filter(|pod| pod.is_live());
        let has_others = pods().any(|pod| (scope.pod)(pod));
        if vpas.is_empty() && !has_others {
            return None;
        }
        vpas.sort_unstable_by(|a, b| a.order.cmp(&b.order));
        let unmanaged = has_others.then_some(vpas.len());
        vpas.extend(unmanaged.map(|_| VpaPods::without_vpa(name)));
        let budgets = view.disruption_budgets.in_namespace(name);
        let budgets = budgets.map(|budget| BudgetPods {
            budget: Arc::clone(budget),
            pods: BTreeMap::new(),
        });
        let mut namespace = Self {
            marked: (0..vpas.len()).collect(),
            vpas,
            budgets: budgets.collect(),
            unmanaged,
            ..Self::default()
        };
        namespace.index_vpas();
        for (id, BudgetPods { budget, .. }) in (0..).zip(&namespace.budgets) {
            let any = Selector::everything();
            let selector = budget.selector.as_ref().unwrap_or(&any);
            namespace.budget_selectors.insert(selector, id);
        }
        let mut targets: HashMap<[&str; 3], Option<Workload<'_>>> = HashMap::new();
        for pod in pods() {
            let target = pod.owner.as_ref().and_then(|owner| {
                *targets
                    .entry([&owner.api_version, &owner.kind, &owner.name])
                    .or_insert_with(|| target::topmost_of(view, pod))
            });
            let membership = namespace.membership(pod, target);
            namespace.insert_pod(pod, membership);
        }
        Some(namespace)
    }

    /// Fills the indices of VPA objects by name and by target.
    fn index_vpas(&mut self) {
        for (index, VpaPods { vpa, selector, .. }) in self.vpas.iter().enumerate() {
            self.by_name.insert(vpa.key.name.clone(), index);
            if !selector.is_nothing() {
                let target = vpa.target().of_any_version();
                self.by_target.entry(target).or_default().push(index);
            }
        }
        for indices in self.by_target.values_mut() {
            let vpa = |index: &usize| &*self.vpas[*index].vpa;
            indices.sort_by(|a, b| vpa(a).precedence().cmp(&vpa(b).precedence()));
            let of_group = |index| NodeGroup::annotation(&vpa(index).object).is_some();
            if indices.iter().any(of_group) {
                for index in indices {
                    self.vpas[*index].shares_owners = true;
                }
            }
        }
    }

    /// Marks all VPA objects of a `DaemonSet` with node groups when the number of its live pods may
    /// have changed: the share of each one follows from the pods of the others.
    fn mark_shares(&mut self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>) {
        fn live(pod: Option<&Arc<Pod>>) -> Option<(Option<&Owner>, &Labels)> {
            let pod = pod.filter(|pod| pod.is_live())?;
            Some((pod.owner.as_ref(), &pod.labels))
        }
        if live(old) == live(new) {
            return;
        }
        for pod in old.into_iter().chain(new) {
            let owner = pod.owner.as_ref();
            let owner = owner.filter(|owner| owner.kind == WellKnown::DaemonSet.kind());
            let found = owner.and_then(|owner| self.of_target(owner.workload(&pod.key.namespace)));
            let sharing = found.into_iter().flatten().copied().filter(|index| {
                let vpa_pods = &self.vpas[*index];
                vpa_pods.shares_owners && !vpa_pods.pods.is_empty()
            });
            let sharing: Vec<usize> = sharing.collect();
            self.marked.extend(sharing);
        }
    }

    fn of_target(&self, target: Workload<'_>) -> Option<&Vec<usize>> {
        self.by_target.get(&Named(target.of_any_version()))
    }

    /// The first VPA object of a target that selects a pod, or else the holder of pods without one,
    /// and the budgets that cover the pod.
    fn membership(&self, pod: &Pod, target: Option<Workload<'_>>) -> PodMembership {
        let candidates = target.and_then(|target| self.of_target(target));
        let selects = |index: &usize| self.vpas[*index].selector.matches(&pod.labels);
        let vpa = candidates
            .and_then(|candidates| candidates.iter().copied().find(selects))
            .or(self.unmanaged);
        let budgets = self.budget_selectors.candidates(&pod.labels).into_iter();
        let budgets = budgets.map(|id| id as usize).filter(|index| {
            let selector = self.budgets[*index].budget.selector.as_ref();
            selector.map_or(true, |selector| selector.matches(&pod.labels))
        });
        PodMembership {
            vpa,
            budgets: budgets.collect(),
        }
    }

    fn insert_pod(&mut self, pod: &Arc<Pod>, membership: PodMembership) {
        let name = &pod.key.name;
        if let Some(index) = membership.vpa {
            let VpaPods { vpa, pods, .. } = &mut self.vpas[index];
            pods.insert(name.clone(), vpa.as_sized(pod));
        }
        for index in &membership.budgets {
            let pods = &mut self.budgets[*index].pods;
            pods.insert(name.clone(), Arc::clone(pod));
        }
        self.memberships.insert(name.clone(), membership);
    }

    fn remove_pod(&mut self, name: &str) -> Option<PodMembership> {
        let membership = self.memberships.remove(name)?;
        if let Some(index) = membership.vpa {
            self.vpas[index].pods.remove(name);
        }
        for index in &membership.budgets {
            self.budgets[*index].pods.remove(name);
        }
        Some(membership)
    }

    /// Replaces a pod, and marks the VPA objects and budgets of both. Only the pod's own index
    /// entries change, so the topmost owner of a pod with the same owner and labels is not looked up.
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
            .unwrap_or_else(|| self.membership(new, target::topmost_of(view, new)));
        self.insert_pod(new, membership);
        self.mark_pod(&new.key.name);
    }

    /// Replaces a VPA object with a new status, and marks it.
    pub(super) fn set_vpa(&mut self, vpa: &Arc<Vpa>) {
        if let Some(index) = self.by_name.get(&vpa.key.name) {
            self.vpas[*index].vpa = Arc::clone(vpa);
            self.marked.insert(*index);
        }
    }

    /// Replaces a budget with a new status, and marks it.
    pub(super) fn set_budget(&mut self, budget: &Arc<DisruptionBudget>) {
        let place = |known: &BudgetPods| known.budget.key.cmp(&budget.key);
        if let Ok(index) = self.budgets.binary_search_by(place) {
            self.budgets[index].budget = Arc::clone(budget);
            self.marked_budgets.insert(index);
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
        let vpas = self.vpas.iter().enumerate();
        let due = vpas.filter(|(_, vpa_pods)| is_due(vpa_pods));
        self.marked.extend(due.map(|(index, _)| index));
    }

    /// Marks all VPA objects that share a budget with a marked one.
    pub(super) fn expand_marks(&mut self) {
        let mut vpas: Vec<usize> = self.marked.iter().copied().collect();
        let mut budgets: Vec<usize> = self.marked_budgets.iter().copied().collect();
        loop {
            if let Some(index) = vpas.pop() {
                let pods = self.vpas[index].pods.keys();
                let covering = pods
                    .filter_map(|name| self.memberships.get(name))
                    .flat_map(|membership| &membership.budgets);
                budgets.extend(covering.filter(|index| self.marked_budgets.insert(**index)));
            } else if let Some(index) = budgets.pop() {
                let pods = self.budgets[index].pods.keys();
                let controlling = pods.filter_map(|name| self.memberships.get(name)?.vpa);
                vpas.extend(controlling.filter(|index| self.marked.insert(*index)));
            } else {
                break;
            }
        }
    }

    pub(super) fn marked(&self) -> impl Iterator<Item = &VpaPods> {
        self.marked.iter().map(|index| &self.vpas[*index])
    }

    pub(super) fn clear_marks(&mut self) {
        self.marked.clear();
        self.marked_budgets.clear();
    }

    /// The budgets that cover a pod.
    pub(super) fn budgets_of(&self, pod: &str) -> impl Iterator<Item = &BudgetPods> + use<'_> {
        let membership = self.memberships.get(pod).into_iter();
        let budgets = membership.flat_map(|membership| &membership.budgets);
        budgets.map(|index| &self.budgets[*index])
    }
}

impl VpaPods {
    fn new(vpa: &Arc<Vpa>, selector: Selector) -> Self {
        let ObjectKey { namespace, name } = vpa.key.clone();
        Self {
            vpa: Arc::clone(vpa),
            order: (vpa.created_at(), name, namespace),
            pods: BTreeMap::new(),
            shares_owners: false,
            selector,
        }
    }

    /// Whether these are the pods that no VPA object controls.
    pub fn is_unmanaged(&self) -> bool {
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
