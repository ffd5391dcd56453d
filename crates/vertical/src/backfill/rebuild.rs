//! Rebuilds the cluster state of a namespace from the usage in a store, as if the recommender had
//! run all the time.
//!
//! The points of each container are added in order of time, under the same rules as live samples.
//! For sizing methods other than the VPA's the order counts across containers too, so all points
//! are collected first.
//! Existing pods have their labels from the cluster. Deleted pods have them from the store, with
//! the original label names where live pods or selectors use them. Usage of pods with unknown labels
//! is ignored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::{ClusterState, PodSpec, VpaSpec};
use jiff::Timestamp;
use model::{ContainerRef, Cpu, Labels, Memory, Sample, Selector, Series};
use view::{ObjectKey, Phase, Pod};

use super::label_names::KnownKeys;
use super::ordered_samples::OrderedSamples;
use crate::recommender_state::conversion::{container_names, with_controller};

/// Pod labels as in the store, by the pod's name.
pub type PodLabels = HashMap<String, BTreeMap<String, String>>;

/// Resource of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// CPU, in cores.
    Cpu,
    /// Memory, in bytes.
    Memory,
}

/// Input of a rebuild: the present state of one namespace.
#[derive(Debug)]
pub struct RebuildInput {
    /// Empty cluster state with the same settings.
    pub cluster: ClusterState,
    /// The VPAs of the namespace.
    pub vpas: Vec<(ObjectKey, VpaSpec)>,
    /// The existing pods of the namespace, with their labels in the cluster state.
    pub pods: Vec<(Arc<Pod>, Arc<Labels>)>,
    /// Whether native sidecars are sized.
    pub native_sidecars: bool,
    /// Whether the histories of sizing methods other than the VPA's are rebuilt.
    pub methods: bool,
    /// Selector of the pods to rebuild; `None` for all.
    pub wanted: Option<Selector>,
    /// Selectors whose history was fetched before.
    pub known: Vec<Selector>,
}

/// Amount of history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RebuildStats {
    /// Samples that entered a history.
    pub samples: u64,
    /// Series of pods with unknown labels.
    pub unattributed: u64,
}

/// Rebuild of one namespace.
#[derive(Debug)]
pub struct Rebuild {
    cluster: ClusterState,
    live: BTreeMap<String, (Arc<Pod>, Arc<Labels>)>,
    gone: PodLabels,
    keys: KnownKeys,
    native_sidecars: bool,
    /// Containers of live pods, and init containers, which have no history.
    containers: BTreeSet<String>,
    init_containers: BTreeSet<String>,
    wanted: Option<Selector>,
    known: Vec<Selector>,
    /// The collected samples, if the order across containers counts.
    ordered: Option<OrderedSamples>,
    now: Timestamp,
    /// The pods whose usage counts, by name.
    pods: HashMap<String, PodSpec>,
    stats: RebuildStats,
}

impl Rebuild {
    /// Starts a rebuild. `gone` has the stored labels of deleted pods.
    pub fn new(input: RebuildInput, gone: PodLabels) -> Self {
        let RebuildInput {
            mut cluster,
            vpas,
            pods,
            native_sidecars,
            methods,
            wanted,
            known,
        } = input;
        let mut keys = KnownKeys::default();
        for (id, spec) in vpas {
            for requirement in spec.selector.requirements() {
                keys.insert(requirement.key());
            }
            cluster.apply_vpa(&id, spec);
        }
        for (key, _) in pods.iter().flat_map(|(_, labels)| labels.iter()) {
            keys.insert(key);
        }
        let (mut containers, mut init_containers) = (BTreeSet::new(), BTreeSet::new());
        for (pod, _) in &pods {
            let (own, own_init) = container_names(pod, native_sidecars);
            containers.extend(own);
            init_containers.extend(own_init);
        }
        let live = pods.into_iter();
        let live = live.map(|(pod, labels)| (pod.key.name.clone(), (pod, labels)));
        Self {
            cluster,
            live: live.collect(),
            gone,
            keys,
            native_sidecars,
            containers,
            init_containers,
            wanted,
            known,
            ordered: methods.then(OrderedSamples::default),
            now: Timestamp::MIN,
            pods: HashMap::new(),
            stats: RebuildStats::default(),
        }
    }

    /// Adds usage of one container, in order of time.
    pub fn add(
        &mut self,
        resource: Resource,
        container: &ContainerRef,
        usage: &Series,
        now: Timestamp,
    ) {
        let Some((first, _)) = usage.points().first() else {
            return;
        };
        if !self.admit(container, *first) {
            return;
        }
        self.now = now;
        if let Some(ordered) = &mut self.ordered {
            let selected = self.cluster.vpas_of(&container.namespace, &container.pod);
            if !selected.is_empty() {
                ordered.push(resource, container, usage);
            }
            return;
        }
        for (at, value) in usage.points() {
            self.add_point(resource, container, *at, *value);
        }
    }

    fn add_point(
        &mut self,
        resource: Resource,
        container: &ContainerRef,
        at: Timestamp,
        value: f64,
    ) {
        let (cpu, memory) = match resource {
            Resource::Cpu => (Some(Cpu::from_millicores((value * 1000.0) as i64)), None),
            Resource::Memory => (None, Some(Memory::from_bytes(value as i64))),
        };
        let accepted = self
            .cluster
            .add_sample(container, &Sample { at, cpu, memory }, self.now);
        let is_accepted = accepted.is_ok_and(|accepted| accepted.cpu || accepted.memory);
        self.stats.samples += u64::from(is_accepted);
    }

    /// Returns the rebuilt cluster state and the amount of history in it.
    pub fn finish(mut self) -> (ClusterState, RebuildStats) {
        if let Some(ordered) = self.ordered.take() {
            if ordered.omitted() > 0 {
                tracing::warn!(
                    series = ordered.omitted(),
                    "the histories of sizing methods leave out series: the namespace has too many samples"
                );
            }
            ordered.for_each(|resource, container, at, value| {
                self.add_point(resource, container, at, value);
            });
        }
        (self.cluster, self.stats)
    }

    /// Whether the container's usage counts. If so, adds the container to the cluster state.
    fn admit(&mut self, container: &ContainerRef, at: Timestamp) -> bool {
        let ContainerRef {
            namespace,
            pod: name,
            container,
        } = container;
        if !self.has_history(name, container) {
            return false;
        }
        if !self.pods.contains_key(name) {
            let labels = self.labels(name);
            self.stats.unattributed += u64::from(labels.is_none());
            let Some(labels) = labels.filter(|labels| self.is_wanted(labels)) else {
                return false;
            };
            let spec = PodSpec {
                namespace: namespace.clone(),
                name: name.clone(),
                labels,
                phase: Phase::Unknown,
                ..PodSpec::default()
            };
            self.gone.remove(name);
            self.pods.insert(name.clone(), spec);
        }
        let Some(pod) = self.pods.get_mut(name) else {
            return false;
        };
        if !pod.containers.contains(container) {
            pod.containers.push(container.clone());
            self.cluster.apply_pod(pod.clone(), at);
        }
        true
    }

    /// Whether a container has history. Which containers of deleted pods were init containers is
    /// known from live pods only.
    fn has_history(&self, pod: &str, container: &str) -> bool {
        match self.live.get(pod) {
            Some((pod, _)) => {
                let (own, _) = container_names(pod, self.native_sidecars);
                own.iter().any(|known| known == container)
            }
            None => {
                self.containers.contains(container) || !self.init_containers.contains(container)
            }
        }
    }

    fn labels(&self, pod: &str) -> Option<Labels> {
        if let Some((_, labels)) = self.live.get(pod) {
            return Some(Labels::clone(labels));
        }
        let stored = self.gone.get(pod)?;
        Some(with_controller(&self.keys.restore(stored), ""))
    }

    fn is_wanted(&self, labels: &Labels) -> bool {
        let wanted = self
            .wanted
            .as_ref()
            .is_none_or(|selector| selector.matches(labels));
        wanted && !self.known.iter().any(|selector| selector.matches(labels))
    }
}

#[cfg(test)]
mod tests {
    use sizing::Config;

    use super::*;
    use crate::fixture::at;

    #[test]
    fn pods_whose_usage_does_not_count_are_not_held() {
        let input = RebuildInput {
            cluster: ClusterState::new(Config::default()).expect("defaults are valid"),
            vpas: Vec::new(),
            pods: Vec::new(),
            native_sidecars: false,
            methods: false,
            wanted: None,
            known: Vec::new(),
        };
        let labels = BTreeMap::from([("app".to_owned(), "ci".to_owned())]);
        let mut rebuild = Rebuild::new(input, PodLabels::from([("job-1".to_owned(), labels)]));
        for number in 0..1000 {
            let container = ContainerRef {
                namespace: "shop".to_owned(),
                pod: format!("job-{number}"),
                container: "main".to_owned(),
            };
            let usage = Series::new(vec![(at(1), 0.5)]);
            rebuild.add(Resource::Cpu, &container, &usage, at(2));
        }
        assert_eq!((rebuild.pods.len(), rebuild.gone.len()), (1, 0));
        let expected = RebuildStats {
            samples: 1,
            unattributed: 999,
        };
        assert_eq!(rebuild.finish().1, expected);
    }
}
