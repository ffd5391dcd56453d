//! Present requests, recommended requests and allocatable resources of the pods of each node group.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use model::{Recommendation, ResourceList, Selector};
use sizing::Amounts;
use view::{Pod, Requirements, Resources, View, Vpa, node_group};

use super::PodsBySelector;
use super::node_inputs::amounts;

/// Maximum number of groups by name. Those after the first ones, by name, count as [`NO_GROUP`].
const MAX_GROUPS: usize = 200;
/// Group of pods without a node.
const NO_NODE: &str = "";
/// Group of pods on nodes without a group; no value of a label.
const NO_GROUP: &str = "-";

/// Sums over the pods and nodes of one node group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeGroupTotals {
    /// Recommended requests; present ones where nothing is recommended.
    recommended: Amounts,
    requested: Amounts,
    allocatable: Amounts,
}

#[derive(Debug, Default)]
pub(super) struct PodsByGroup {
    allocatable: BTreeMap<Arc<str>, Amounts>,
    pods: Vec<GroupedPod>,
}

#[derive(Debug)]
struct GroupedPod {
    group: Arc<str>,
    pod: Arc<Pod>,
    /// The first object that selects it.
    vpa: Option<Arc<Vpa>>,
}

impl NodeGroupTotals {
    /// Recommended, requested and allocatable cores and bytes.
    pub(crate) fn values(&self) -> [f64; 6] {
        let cores = |it: Amounts| it.cpu.cores();
        let bytes = |it: Amounts| it.memory.bytes() as f64;
        [
            cores(self.recommended),
            bytes(self.recommended),
            cores(self.requested),
            bytes(self.requested),
            cores(self.allocatable),
            bytes(self.allocatable),
        ]
    }
}

impl PodsByGroup {
    pub(super) fn find(
        view: &View,
        objects: &[(&Arc<Vpa>, &Selector)],
        by_selector: &PodsBySelector<'_>,
    ) -> Self {
        let named = view
            .nodes
            .iter()
            .filter_map(|node| node_group(&node.labels));
        let named: BTreeSet<&str> = named.collect();
        let named = named.into_iter().take(MAX_GROUPS);
        let groups: BTreeMap<&str, Arc<str>> = named.map(|group| (group, group.into())).collect();
        let (no_node, no_group) = (Arc::from(NO_NODE), Arc::from(NO_GROUP));
        let mut allocatable: BTreeMap<Arc<str>, Amounts> = BTreeMap::new();
        let mut group_of: HashMap<&str, &Arc<str>> = HashMap::new();
        for node in view.nodes.iter() {
            let group = node_group(&node.labels).and_then(|group| groups.get(group));
            let group = group.unwrap_or(&no_group);
            let sum = allocatable.entry(Arc::clone(group)).or_default();
            *sum = *sum + amounts(node.allocatable);
            group_of.insert(&node.name, group);
        }
        let mut vpas: HashMap<*const Pod, &Arc<Vpa>> = HashMap::new();
        let mut seen = HashSet::new();
        for (vpa, selector) in objects {
            let selected = (&*vpa.key.namespace, *selector);
            let is_first = seen.insert(selected);
            for pod in by_selector
                .get(&selected)
                .filter(|_| is_first)
                .into_iter()
                .flatten()
            {
                vpas.entry(Arc::as_ptr(pod)).or_insert(vpa);
            }
        }
        let pods = view.pods.iter().chain(view.pending_pods.iter());
        let pods = pods.filter(|pod| !pod.is_finished()).map(|pod| {
            let placement = pod.placement.as_ref();
            let node = placement.and_then(|placement| placement.node.as_deref());
            let group = node.map_or(&no_node, |node| {
                group_of.get(node).copied().unwrap_or(&no_group)
            });
            let vpa = vpas.get(&Arc::as_ptr(pod)).map(|vpa| Arc::clone(vpa));
            GroupedPod {
                group: Arc::clone(group),
                pod: vpa
                    .as_ref()
                    .map_or_else(|| Arc::clone(pod), |vpa| vpa.as_sized(pod)),
                vpa,
            }
        });
        let pods = pods.collect();
        Self { allocatable, pods }
    }

    /// The sums by group. `recommendation` returns what is recommended by an object.
    pub(super) fn totals<'a>(
        &self,
        recommendation: impl Fn(&Vpa) -> Option<&'a Recommendation>,
    ) -> BTreeMap<Arc<str>, NodeGroupTotals> {
        let groups = self.allocatable.iter().map(|(group, allocatable)| {
            let totals = NodeGroupTotals {
                allocatable: *allocatable,
                ..NodeGroupTotals::default()
            };
            (Arc::clone(group), totals)
        });
        let mut totals: BTreeMap<_, _> = groups.collect();
        for GroupedPod { group, pod, vpa } in &self.pods {
            let sums: &mut NodeGroupTotals = totals.entry(Arc::clone(group)).or_default();
            let requested = amounts(pod.requirements().requests);
            let recommended = vpa.as_ref().and_then(|vpa| recommendation(vpa));
            sums.requested = sums.requested + requested;
            sums.recommended =
                sums.recommended + recommended.map_or(requested, |it| resized(pod, it));
        }
        totals
    }
}

/// The requests of a pod with the targets of its containers.
fn resized(pod: &Pod, recommendation: &Recommendation) -> Amounts {
    let all = pod.requirements_of(|container| {
        let mut recommended = recommendation.containers.iter();
        let target = recommended.find(|it| it.container_name == container.name);
        let target = target.map(|it| &it.target);
        Requirements {
            requests: Resources {
                cpu: target
                    .and_then(ResourceList::cpu)
                    .or(container.requests.cpu),
                memory: target
                    .and_then(ResourceList::memory)
                    .or(container.requests.memory),
            },
            limits: container.limits,
        }
    });
    amounts(all.requests)
}

#[cfg(test)]
mod tests;
