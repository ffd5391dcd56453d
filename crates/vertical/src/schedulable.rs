//! Caps to what can be scheduled: for each object one of its pods, the limits of its namespace and
//! the free resources of nodes. Loaded from the view together with pods; the formulas are in
//! `sizing`.

mod capacity;
mod condition;
mod node_group_shape;
mod node_group_totals;
mod node_inputs;
mod quotas;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::vpa::NodeGroup;
use model::{LimitType, NodeConstraints, Recommendation, ResourceList, Selector};
use sizing::{
    CandidateNodes, Ceiling, Fit, FitInput, LimitScope, NodeHeadrooms, limit_range_ceilings,
};
use view::{ObjectKey, Pod, Resources, SelectorIndex, View, Vpa, WellKnown};

use crate::resource_policy::container_policies;

pub use condition::{apply_cap, cap_change, clear_cap, count_capped};
use node_group_totals::{NodeGroupTotals, PodsByGroup};
use node_inputs::{NodeInputs, pod_shape};
use quotas::Quotas;
pub(crate) use settings::{CAP_TO_SCHEDULABLE, refused_cap};
pub use settings::{CapSources, Settings};

#[derive(Debug)]
pub(crate) struct SchedulableCaps {
    settings: Settings,
    facts: NodeInputs,
    headrooms: NodeHeadrooms,
    /// Candidate nodes by constraints: nodes are many, constraints few.
    by_constraints: HashMap<NodeSelection, Arc<CandidateNodes>>,
    workloads: BTreeMap<ObjectKey, Workload>,
    by_group: PodsByGroup,
}

/// Nodes that a pod may run on.
#[derive(Debug, PartialEq, Eq, Hash)]
enum NodeSelection {
    One(NodeConstraints),
    /// Every node of this `DaemonSet`, by namespace and name, or of those with this label.
    Every((String, String), Option<(String, String)>),
}

#[derive(Debug)]
struct Workload {
    /// The newest pod, which represents the others, also after they are deleted.
    pod: Arc<Pod>,
    default_limits: Resources,
    ceilings: Vec<Ceiling>,
    nodes: Option<Arc<CandidateNodes>>,
}

impl SchedulableCaps {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            facts: NodeInputs::default(),
            headrooms: NodeHeadrooms::default(),
            by_constraints: HashMap::new(),
            workloads: BTreeMap::new(),
            by_group: PodsByGroup::default(),
        }
    }

    /// Loads what has changed. `objects` come with the selectors of their pods.
    pub(crate) fn load<'a>(
        &mut self,
        view: &View,
        objects: impl Iterator<Item = (&'a Arc<Vpa>, &'a Selector)>,
    ) {
        if self.settings.sources().nodes {
            let facts = NodeInputs::of(view, &self.settings);
            if facts != self.facts {
                self.headrooms = facts.headrooms(self.settings.margin);
                self.facts = facts;
                self.by_constraints.clear();
            }
        }
        let objects: Vec<_> = objects.collect();
        let pods = pods_by_selector(view, &objects);
        if self.settings.sources().nodes {
            self.by_group = PodsByGroup::find(view, &objects, &pods);
        }
        let newest_pods = pods.iter().map(|(of, pods)| (*of, newest(pods)));
        let newest_pods: HashMap<_, _> = newest_pods.collect();
        let quotas = Quotas::of(view);
        let mut left_by_quotas: HashMap<_, Vec<Ceiling>> = HashMap::new();
        let mut before = std::mem::take(&mut self.workloads);
        let mut selections = HashMap::new();
        for (vpa, selector) in objects {
            let selected = (&*vpa.key.namespace, selector);
            let newest = newest_pods.get(&selected).cloned().flatten();
            let newest = newest.or_else(|| before.remove(&vpa.key).map(|workload| workload.pod));
            let Some(pod) = newest else { continue };
            let cap_to = self.settings.sources_of(&vpa.object);
            let is_whole = vpa.object.spec.sizes_whole_pods();
            let mut ceilings = Vec::new();
            if cap_to.limit_ranges {
                let all = limit_ranges(view, &vpa.key.namespace);
                ceilings.extend(all.filter(|it| !is_whole || it.per == LimitScope::Pod));
            }
            if cap_to.quotas {
                let replicas = replicas(view, vpa);
                let known = left_by_quotas.entry((selected, Arc::as_ptr(&pod), replicas));
                let left = known.or_insert_with(|| {
                    quotas.ceilings(&vpa.key.namespace, &pod, &pods[&selected], replicas)
                });
                ceilings.extend(left.iter().cloned());
            }
            let nodes = if cap_to.nodes {
                self.nodes(&pod, vpa, &mut selections)
            } else {
                None
            };
            let default_limits = if is_whole {
                Resources::default()
            } else {
                default_limits(view, &vpa.key.namespace)
            };
            self.workloads.insert(
                vpa.key.clone(),
                Workload {
                    pod,
                    default_limits,
                    ceilings,
                    nodes,
                },
            );
        }
        self.by_constraints = selections;
    }

    /// Sums by node group; none unless recommendations are capped to nodes. `recommendation` returns
    /// what is recommended by an object.
    pub(crate) fn node_group_totals<'a>(
        &self,
        recommendation: impl Fn(&Vpa) -> Option<&'a Recommendation>,
    ) -> BTreeMap<Arc<str>, NodeGroupTotals> {
        self.by_group.totals(recommendation)
    }

    /// The caps of an object's containers; `None` while its pods are unknown.
    pub(crate) fn fit(
        &self,
        vpa: &Vpa,
        whole_cores: bool,
        recommendation: &Recommendation,
    ) -> Option<Fit> {
        let Workload {
            pod,
            default_limits,
            ceilings,
            nodes,
        } = self.workloads.get(&vpa.key)?;
        let pod = vpa.as_sized(pod);
        let pod = pod_shape(&pod, &vpa.object, *default_limits, whole_cores);
        let policies = container_policies(&vpa.object);
        let fitting = FitInput {
            pod: &pod,
            policies: &policies,
            ceilings,
            nodes: nodes.as_deref(),
        };
        Some(fitting.fit(recommendation))
    }

    /// The free resources of the nodes that a pod may run on. `selections` has the constraints still in
    /// use.
    fn nodes(
        &mut self,
        pod: &Pod,
        vpa: &Vpa,
        selections: &mut HashMap<NodeSelection, Arc<CandidateNodes>>,
    ) -> Option<Arc<CandidateNodes>> {
        let node_selection = node_selection(pod, vpa)?;
        if let Some(headrooms) = selections.get(&node_selection) {
            return Some(Arc::clone(headrooms));
        }
        let headrooms = match self.by_constraints.remove(&node_selection) {
            Some(headrooms) => headrooms,
            None => Arc::new(match &node_selection {
                NodeSelection::One(constraints) => self.headrooms.for_pods(constraints),
                NodeSelection::Every(daemon, group) => {
                    let label = group.as_ref();
                    let label = label.map(|(name, value)| (name.as_str(), value.as_str()));
                    self.headrooms.for_daemon(daemon, label)?
                }
            }),
        };
        selections.insert(node_selection, Arc::clone(&headrooms));
        Some(headrooms)
    }
}

/// The pods of each selector of objects by namespace, including Pending ones. Objects of one workload
/// share a selector, so the effort does not grow with their number times that of their pods.
type PodsBySelector<'a> = HashMap<(&'a str, &'a Selector), Vec<&'a Arc<Pod>>>;

fn pods_by_selector<'a>(
    view: &'a View,
    objects: &[(&'a Arc<Vpa>, &'a Selector)],
) -> PodsBySelector<'a> {
    let mut indices: HashMap<&str, SelectorIndex> = HashMap::new();
    let mut found = PodsBySelector::new();
    for (id, (vpa, selector)) in (0..).zip(objects) {
        let namespace = &*vpa.key.namespace;
        if found.insert((namespace, *selector), Vec::new()).is_none() {
            indices.entry(namespace).or_default().insert(selector, id);
        }
    }
    for pod in view.pods.iter().chain(view.pending_pods.iter()) {
        let Some(index) = indices.get(pod.key.namespace.as_str()) else {
            continue;
        };
        let candidates = index.candidates(&pod.labels).into_iter();
        let candidates = candidates.filter_map(|id| objects.get(id as usize));
        for (vpa, selector) in candidates.filter(|(_, selector)| selector.matches(&pod.labels)) {
            let selected = (&*vpa.key.namespace, *selector);
            found.entry(selected).or_default().push(pod);
        }
    }
    found
}

/// The newest pod, preferably an unfinished one.
fn newest(pods: &[&Arc<Pod>]) -> Option<Arc<Pod>> {
    let made = |pod: &Pod| {
        pod.placement
            .as_ref()
            .and_then(|placement| placement.created_at)
    };
    let newest = pods
        .iter()
        .max_by_key(|pod| (!pod.is_finished(), made(pod), &pod.key));
    newest.map(|pod| Arc::clone(pod))
}

/// The nodes that a pod may run on; `None` while unknown.
fn node_selection(pod: &Pod, vpa: &Vpa) -> Option<NodeSelection> {
    match &pod.owner {
        Some(owner) if owner.kind == WellKnown::DaemonSet.kind() => {
            let daemon = (pod.key.namespace.clone(), owner.name.clone());
            let group = NodeGroup::of(&vpa.object).and_then(Result::ok);
            let label =
                |group: NodeGroup<'_>| (group.node_label().to_owned(), group.value().to_owned());
            Some(NodeSelection::Every(daemon, group.map(label)))
        }
        _ => Some(NodeSelection::One(
            pod.placement.as_ref()?.constraints.clone(),
        )),
    }
}

/// The desired replicas of an object's target; 0 if unknown, as those of a group of nodes.
fn replicas(view: &View, vpa: &Vpa) -> u32 {
    if NodeGroup::annotation(&vpa.object).is_some() {
        return 0;
    }
    let controller = view.controller_of(vpa.points_at());
    let replicas = controller.and_then(|controller| controller.replicas);
    replicas
        .and_then(|replicas| u32::try_from(replicas).ok())
        .unwrap_or(0)
}

/// The default limits of containers. The last of several limit ranges counts, as upstream.
fn default_limits(view: &View, namespace: &str) -> Resources {
    let ranges = view.limit_ranges.in_namespace(namespace);
    let items = ranges.flat_map(|range| &range.items);
    let defaults = items
        .filter(|item| item.kind == LimitType::Container)
        .filter_map(|item| item.default.as_ref());
    let default = defaults.last();
    Resources {
        cpu: default.and_then(ResourceList::cpu),
        memory: default.and_then(ResourceList::memory),
    }
}

fn limit_ranges<'a>(view: &'a View, namespace: &'a str) -> impl Iterator<Item = Ceiling> + use<'a> {
    view.limit_ranges.in_namespace(namespace).flat_map(|range| {
        range.items.iter().flat_map(move |item| {
            let per = match item.kind {
                LimitType::Container => LimitScope::Container,
                LimitType::Pod => LimitScope::Pod,
            };
            item.max
                .iter()
                .flat_map(move |max| limit_range_ceilings(&range.key.name, per, max))
        })
    })
}
