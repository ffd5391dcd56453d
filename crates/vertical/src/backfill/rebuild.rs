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

use jiff::Timestamp;
use model::{ContainerRef, Cpu, Labels, Memory, Sample, Selector, Series};
use view::{ObjectKey, Phase, Pod};

use super::{HistoryGap, OrderedSamples};
use crate::recommender_state::{container_names, with_controller};
use crate::{ClusterState, PodSpec, VpaSpec};

/// Pod labels as in the store, by the pod's name.
pub type PodLabels = HashMap<String, BTreeMap<String, String>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// CPU, in cores.
    Cpu,
    /// Memory, in bytes.
    Memory,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RebuildStats {
    /// Samples that entered a history.
    pub samples: u64,
    /// Series of pods with unknown labels.
    pub unattributed: u64,
}

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
    /// Starts the rebuild of a gap. `cluster` is empty and has the same settings. `known` are the
    /// selectors whose history was fetched before, and `gone` the stored labels of deleted pods.
    pub(crate) fn new(
        cluster: ClusterState,
        gap: &HistoryGap,
        native_sidecars: bool,
        known: Vec<Selector>,
        gone: PodLabels,
    ) -> Self {
        Self {
            cluster,
            live: BTreeMap::new(),
            gone,
            keys: KnownKeys::default(),
            native_sidecars,
            containers: BTreeSet::new(),
            init_containers: BTreeSet::new(),
            wanted: gap.selector.clone(),
            known,
            ordered: gap.methods.then(OrderedSamples::default),
            now: Timestamp::MIN,
            pods: HashMap::new(),
            stats: RebuildStats::default(),
        }
    }

    pub(crate) fn add_vpa(&mut self, key: &ObjectKey, spec: VpaSpec) {
        for requirement in spec.selector.requirements() {
            self.keys.insert(requirement.key());
        }
        self.cluster.apply_vpa(key, spec);
    }

    /// Adds an existing pod of the namespace, with its labels in the cluster state.
    pub(crate) fn add_pod(&mut self, pod: &Arc<Pod>, labels: &Arc<Labels>) {
        for (key, _) in labels.iter() {
            self.keys.insert(key);
        }
        let (own, own_init) = container_names(pod, self.native_sidecars);
        self.containers.extend(own);
        self.init_containers.extend(own_init);
        let named = (Arc::clone(pod), Arc::clone(labels));
        self.live.insert(pod.key.name.clone(), named);
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
            let ContainerRef { namespace, pod, .. } = container;
            if self.cluster.vpas_of(namespace, pod).next().is_some() {
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
            if ordered.omitted > 0 {
                tracing::warn!(
                    series = ordered.omitted,
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

/// Label names in use, by their form in a store: there `app.kubernetes.io/name` is
/// `app_kubernetes_io_name`, and kube-state-metrics also writes `appName` as `app_name`. The reverse is
/// only known for names in use, so it is built from the labels of live pods and from selectors.
#[derive(Debug, Clone, Default)]
struct KnownKeys {
    /// `None` if several names have the same form.
    by_stored: HashMap<String, Option<String>>,
}

impl KnownKeys {
    /// Adds a name in use.
    fn insert(&mut self, key: &str) {
        let plain = key.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        let snake = snake_case(&plain);
        for form in [plain, snake] {
            let known = self.by_stored.entry(form);
            let known = known.or_insert_with(|| Some(key.to_owned()));
            if known.as_deref() != Some(key) {
                *known = None;
            }
        }
    }

    /// Restores Kubernetes' label names where known.
    fn restore(&self, stored: &BTreeMap<String, String>) -> Labels {
        let name = |stored: &String| {
            let known = self.by_stored.get(stored).and_then(Clone::clone);
            known.unwrap_or_else(|| stored.clone())
        };
        let restored = stored.iter().map(|(key, value)| (name(key), value.clone()));
        restored.collect()
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut before = '_';
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
        before = letter;
    }
    snake
}

#[cfg(test)]
mod tests {
    use sizing::Config;

    use super::*;
    use crate::fixture::{at, container};

    #[test]
    fn pods_whose_usage_does_not_count_are_not_held() {
        let cluster = ClusterState::new(Config::default()).expect("defaults are valid");
        let gap = HistoryGap {
            namespace: "shop".to_owned(),
            selector: None,
            end: at(0),
            methods: false,
        };
        let labels = BTreeMap::from([("app".to_owned(), "ci".to_owned())]);
        let gone = PodLabels::from([("job-1".to_owned(), labels)]);
        let mut rebuild = Rebuild::new(cluster, &gap, false, Vec::new(), gone);
        for number in 0..1000 {
            let container = container(&format!("job-{number}"), "main");
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

    fn check(known: &[&str], stored: &str, expected: &str) {
        let mut keys = KnownKeys::default();
        for key in known {
            keys.insert(key);
        }
        let labels = keys.restore(&BTreeMap::from([(stored.to_owned(), "v".to_owned())]));
        assert_eq!(labels.to_string(), format!("{expected}=v"));
    }

    #[test]
    fn names_in_use_are_found_again() {
        let (name, hash) = ("app.kubernetes.io/name", "pod-template-hash");
        check(&[name, "app"], "app_kubernetes_io_name", name);
        check(&[hash], "pod_template_hash", hash);
        check(&["appName"], "appName", "appName");
        check(&["appName"], "app_name", "appName");
        check(&["app", "app"], "app", "app");
    }

    #[test]
    fn other_names_stay_as_they_are() {
        check(&["app"], "tier", "tier");
        check(&[], "app_kubernetes_io_name", "app_kubernetes_io_name");
    }

    #[test]
    fn names_that_look_the_same_are_not_guessed() {
        check(&["a.b", "a-b"], "a_b", "a_b");
    }
}
