//! Upstream's `ClusterState`: pods, VPAs as selectors with policies, and the histories of
//! containers that recommendations are computed from. In memory and without I/O.
//!
//! Pods and VPAs change with `apply` and `delete`; usage comes with `add_sample` and `record_oom`.
//! The cost of a call does not depend on the number of objects: an index links selectors and
//! labels, VPAs with equal selectors share links and merged histories, and groups without pods and
//! history are dropped. Source: upstream `pkg/recommender/model/cluster.go` and `vpa.go`. Unlike
//! there, per-VPA rules of a container end with the VPA or the field, and checkpoints survive a
//! change of the selector.

mod garbage;
mod histories;
mod ingest;
mod matched_vpa;
mod method_history;
mod namespace;
mod recommend;
mod selection;
mod sizing_method;
mod slab;
#[cfg(test)]
mod tests;
mod vpa;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::Labels;
use sizing::{Config, ConfigError, HistogramConfigs, Instant};
use view::ObjectKey;

pub use ingest::{Accepted, SampleError};
pub use method_history::MAX_CONTAINERS;
pub use namespace::PodSpec;
pub use vpa::VpaSpec;

use crate::refresh::PodRequests;
use matched_vpa::MatchedVpa;
use namespace::{Namespace, Pod};

#[derive(Clone, Debug)]
pub struct ClusterState {
    config: Config,
    shapes: HistogramConfigs,
    namespaces: HashMap<Box<str>, Namespace>,
    last_garbage_collection: Instant,
    /// Whether new histories of sizing methods await earlier history.
    awaits_method_histories: bool,
}

impl ClusterState {
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let shapes = config.validate()?;
        Ok(Self::empty(config, shapes))
    }

    #[must_use]
    pub fn empty_copy(&self) -> Self {
        Self::empty(self.config.clone(), self.shapes)
    }

    fn empty(config: Config, shapes: HistogramConfigs) -> Self {
        Self {
            config,
            shapes,
            namespaces: HashMap::new(),
            last_garbage_collection: Instant::NEVER,
            awaits_method_histories: false,
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Adds or updates a pod. Containers keep their state by name.
    pub fn apply_pod(&mut self, pod: PodSpec, now: Timestamp) {
        self.namespace_mut(&pod.namespace).apply_pod(pod, now);
    }

    /// Removes a pod. The history of its containers stays.
    pub fn delete_pod(&mut self, namespace: &str, name: &str) {
        self.update(namespace, |namespace| namespace.delete_pod(name));
    }

    pub fn apply_vpa(&mut self, id: &ObjectKey, mut spec: VpaSpec) {
        if !self.config.per_vpa_rules {
            spec.policies
                .iter_mut()
                .for_each(sizing::ContainerPolicy::clear_rules);
        }
        let awaits_earlier = self.awaits_method_histories;
        self.namespace_mut(&id.namespace)
            .apply_vpa(&id.name, spec, awaits_earlier);
    }

    pub fn vpa_spec(&self, id: &ObjectKey) -> Option<&VpaSpec> {
        self.vpa(id).map(|matched| &matched.vpa.spec)
    }

    /// Removes a VPA with its checkpoints.
    pub fn delete_vpa(&mut self, id: &ObjectKey) {
        self.update(&id.namespace, |namespace| {
            namespace.delete_vpa(&id.name);
        });
    }

    /// The VPAs, in no particular order.
    fn vpa_ids(&self) -> impl Iterator<Item = ObjectKey> + '_ {
        self.namespaces.iter().flat_map(|(namespace, content)| {
            let names = content.histories.vpas.keys();
            names.map(|name| ObjectKey::new(&**namespace, &**name))
        })
    }

    /// Number of pods selected by a VPA; `None` if it does not exist.
    pub fn pod_count(&self, id: &ObjectKey) -> Option<usize> {
        let selection = self.vpa(id)?.selection();
        Some(selection.map_or(0, |selection| selection.pods))
    }

    /// The requests of the pods that a VPA selects.
    pub(crate) fn pod_requests(&self, id: &ObjectKey) -> Option<&PodRequests> {
        self.vpa(id)?.pod_requests()
    }

    /// The objects of all pods, in no particular order.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<view::Pod>> {
        let pods = self.namespaces.values();
        let pods = pods.flat_map(|namespace| namespace.pods.values());
        pods.filter_map(|pod| pod.object.as_ref())
    }

    pub fn pod(&self, id: &ObjectKey) -> Option<&Arc<view::Pod>> {
        self.find_pod(&id.namespace, &id.name)?.1.object.as_ref()
    }

    /// Whether any VPA sizes pods as a whole.
    pub(crate) fn has_whole_pods(&self) -> bool {
        let mut namespaces = self.namespaces.values();
        namespaces.any(|namespace| namespace.histories.whole_pods > 0)
    }

    /// Whether a VPA sizes a pod as a whole, in place of its containers.
    pub(crate) fn sizes_whole(&self, namespace: &str, pod: &str) -> bool {
        let namespace = self.namespaces.get(namespace);
        namespace.is_some_and(|namespace| namespace.sizes_whole(pod))
    }

    /// The labels of a pod; `None` if it does not exist.
    pub fn labels_of(&self, id: &ObjectKey) -> Option<&Arc<Labels>> {
        let (namespace, pod) = self.find_pod(&id.namespace, &id.name)?;
        namespace.labels(pod)
    }

    /// Whether a VPA of this namespace selects pods with these labels.
    pub fn selects(&self, namespace: &str, labels: &Labels) -> bool {
        let namespace = self.namespaces.get(namespace);
        namespace.is_some_and(|namespace| namespace.histories.selects(labels))
    }

    /// The VPAs that select a pod, by selector, in the order in which they were linked; none if the pod
    /// does not exist. A workload may have thousands with one selector.
    pub fn vpas_of(
        &self,
        namespace: &str,
        pod: &str,
    ) -> impl Iterator<Item = impl DoubleEndedIterator<Item = ObjectKey>> {
        let found = self.find_pod(namespace, pod);
        let group = found.and_then(|(content, pod)| Some((content, content.group(pod)?)));
        let selections = group.into_iter().flat_map(|(content, group)| {
            let ids = group.selections.iter();
            ids.filter_map(|id| content.histories.selections.get(*id))
        });
        selections.map(move |selection| {
            let names = selection.vpas.values();
            names.map(move |name| ObjectKey::new(namespace, &**name))
        })
    }

    /// Number of histories: one per container name and label set.
    pub fn history_count(&self) -> usize {
        let namespaces = self.namespaces.values();
        let groups = namespaces.flat_map(|namespace| namespace.histories.groups.iter());
        groups.map(|group| group.histories.len()).sum()
    }

    fn vpa(&self, id: &ObjectKey) -> Option<MatchedVpa<'_>> {
        let namespace = self.namespaces.get(id.namespace.as_str())?;
        let vpa = namespace.histories.vpas.get(&*id.name)?;
        Some(MatchedVpa { namespace, vpa })
    }

    fn find_pod(&self, namespace: &str, name: &str) -> Option<(&Namespace, &Pod)> {
        let namespace = self.namespaces.get(namespace)?;
        Some((namespace, namespace.pods.get(name)?))
    }

    fn namespace_mut(&mut self, name: &str) -> &mut Namespace {
        let (rules, shapes) = (self.config.memory, self.shapes);
        self.namespaces
            .entry(name.into())
            .or_insert_with(|| Namespace::new(rules, shapes))
    }

    fn update(&mut self, name: &str, change: impl FnOnce(&mut Namespace)) {
        let Some(namespace) = self.namespaces.get_mut(name) else {
            return;
        };
        change(namespace);
        if namespace.is_empty() {
            self.namespaces.remove(name);
        }
    }
}
