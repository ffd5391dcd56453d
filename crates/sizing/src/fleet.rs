//! Everything one recommender knows: pods, the history of their containers, and autoscalers, in memory and without input or output.
//!
//! Pods and autoscalers are told with `apply`, `delete` and `reset`; usage with `add_sample` and `record_oom`. Work per call does not grow
//! with the size of the fleet: selectors and labels find each other through an index, and groups without pods and history are forgotten.
//! Source: upstream `pkg/recommender/model/cluster.go` and `vpa.go`. Unlike there, rules that an autoscaler sets for a container end
//! with the autoscaler or the field, stored history survives a change of the selector, and merging changes nothing that is shared.

mod autoscaler;
mod group;
mod label_index;
mod namespace;
mod pod;
mod recommend;
mod slab;

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use model::{ContainerRef, Memory, Sample};
use thiserror::Error;

pub use autoscaler::{AutoscalerId, AutoscalerSpec};
pub use pod::{Phase, PodSpec};

use crate::aggregate::{Aggregate, Shapes};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::config::{Config, ConfigError};
use crate::instant::Instant;
use autoscaler::Autoscaler;
use namespace::Namespace;

/// Old history is looked for at most this often.
const GARBAGE_INTERVAL_NS: i64 = 3_600_000_000_000;

/// Clocks differ, but samples from further ahead would make everything real look ancient, so they are refused.
const MAX_AHEAD_NS: i64 = 86_400_000_000_000;

/// Stored histories may refer to times this much further ahead than samples: references are rounded and peaks end their window.
const MAX_REFERENCE_AHEAD_NS: i64 = 100 * MAX_AHEAD_NS;

/// All pods, histories and autoscalers of one recommender.
#[derive(Clone, Debug)]
pub struct Fleet {
    config: Config,
    shapes: Shapes,
    namespaces: HashMap<Box<str>, Namespace>,
    last_garbage_collection: Instant,
}

/// Which parts of a sample entered the history; old and negative ones do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The CPU usage did.
    pub cpu: bool,
    /// The memory usage did.
    pub memory: bool,
}

/// How much a fleet holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetSize {
    /// Pods.
    pub pods: usize,
    /// Sets of labels that pods or histories have.
    pub label_sets: usize,
    /// Histories: one per container name and set of labels.
    pub histories: usize,
    /// Autoscalers.
    pub autoscalers: usize,
}

/// Why a sample or OOM kill cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SampleError {
    /// No such pod, or the pod has no such container.
    #[error("container {0} is not known")]
    UnknownContainer(ContainerRef),
    /// The time is more than a day ahead.
    #[error("sample of container {container} is from the future: {at}")]
    Future {
        /// The container.
        container: ContainerRef,
        /// The time of the sample.
        at: Timestamp,
    },
}

impl Fleet {
    /// A fleet without pods and autoscalers.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let shapes = config.validate()?;
        let last_garbage_collection = Instant::NEVER;
        Ok(Self { config, shapes, namespaces: HashMap::new(), last_garbage_collection })
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How histograms are kept.
    pub fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// Adds a pod or takes over its changes. Containers keep their state by name.
    pub fn apply_pod(&mut self, pod: PodSpec, now: Timestamp) {
        self.namespace_mut(&pod.namespace).apply_pod(pod, now);
    }

    /// Forgets a pod; the history of its containers stays.
    pub fn delete_pod(&mut self, namespace: &str, name: &str) {
        self.update(namespace, |namespace| namespace.delete_pod(name));
    }

    /// Makes these the only pods.
    pub fn reset_pods(&mut self, pods: Vec<PodSpec>, now: Timestamp) {
        let kept: HashSet<_> = pods.iter().map(|pod| (pod.namespace.as_str(), pod.name.as_str())).collect();
        let mut gone = Vec::new();
        for (namespace, content) in &self.namespaces {
            let names = content.pod_names().filter(|name| !kept.contains(&(&**namespace, *name)));
            gone.extend(names.map(|name| (namespace.clone(), name.to_owned())));
        }
        for (namespace, name) in gone {
            self.delete_pod(&namespace, &name);
        }
        for pod in pods {
            self.apply_pod(pod, now);
        }
    }

    /// Adds an autoscaler or takes over its changes.
    pub fn apply_autoscaler(&mut self, id: &AutoscalerId, mut spec: AutoscalerSpec) {
        if !self.config.per_autoscaler_rules {
            spec.policies.iter_mut().for_each(crate::ContainerPolicy::clear_rules);
        }
        self.namespace_mut(&id.namespace).apply_autoscaler(&id.name, spec);
    }

    /// Forgets an autoscaler with the history that was stored for it.
    pub fn delete_autoscaler(&mut self, id: &AutoscalerId) {
        self.update(&id.namespace, |namespace| namespace.delete_autoscaler(&id.name));
    }

    /// Makes these the only autoscalers.
    pub fn reset_autoscalers(&mut self, autoscalers: HashMap<AutoscalerId, AutoscalerSpec>) {
        let gone: Vec<_> = self.autoscaler_ids().filter(|id| !autoscalers.contains_key(id)).collect();
        for id in gone {
            self.delete_autoscaler(&id);
        }
        for (id, spec) in autoscalers {
            self.apply_autoscaler(&id, spec);
        }
    }

    /// All autoscalers, in no particular order.
    pub fn autoscaler_ids(&self) -> impl Iterator<Item = AutoscalerId> + '_ {
        self.namespaces.iter().flat_map(|(namespace, content)| {
            let id = |name: &str| AutoscalerId { namespace: namespace.to_string(), name: name.to_owned() };
            content.autoscaler_names().map(id)
        })
    }

    /// How many pods the autoscaler selects; absent when there is no such autoscaler.
    pub fn pod_count(&self, id: &AutoscalerId) -> Option<usize> {
        let (namespace, autoscaler) = self.autoscaler(id)?;
        let groups = autoscaler.groups.iter().filter_map(|group| namespace.groups.get(*group));
        Some(groups.map(|group| group.pods.len()).sum())
    }

    /// How much there is of everything.
    pub fn size(&self) -> FleetSize {
        self.namespaces.values().map(Namespace::size).fold(FleetSize::default(), |total, size| FleetSize {
            pods: total.pods + size.pods,
            label_sets: total.label_sets + size.label_sets,
            histories: total.histories + size.histories,
            autoscalers: total.autoscalers + size.autoscalers,
        })
    }

    /// Adds the usage of a container. Samples of init containers are dropped.
    pub fn add_sample(
        &mut self,
        container: &ContainerRef,
        sample: &Sample,
        now: Timestamp,
    ) -> Result<Accepted, SampleError> {
        check_time(container, sample.at, now)?;
        let shapes = self.shapes;
        let default_rules = self.config.memory;
        let at = sample.at.into();
        let namespace = self.namespaces.get_mut(container.namespace.as_str());
        let Some((state, history)) =
            namespace.and_then(|namespace| namespace.container(&container.pod, &container.container, sample.at))
        else {
            return self.unknown(container).map(|()| Accepted::default());
        };
        let rules = history.rules.as_deref().unwrap_or(&default_rules);
        let aggregate = &mut history.aggregate;
        Ok(Accepted {
            cpu: sample.cpu.is_some_and(|cpu| state.add_cpu(aggregate, &shapes, cpu.millicores(), at)),
            memory: sample.memory.is_some_and(|memory| state.add_memory(aggregate, &shapes, rules, memory.bytes(), at)),
        })
    }

    /// Adds an OOM kill of a container that requested so much memory; false if it is too old to matter.
    pub fn record_oom(
        &mut self,
        container: &ContainerRef,
        at: Timestamp,
        requested: Memory,
        now: Timestamp,
    ) -> Result<bool, SampleError> {
        check_time(container, at, now)?;
        let shapes = self.shapes;
        let default_rules = self.config.memory;
        let namespace = self.namespaces.get_mut(container.namespace.as_str());
        let Some((state, history)) =
            namespace.and_then(|namespace| namespace.container(&container.pod, &container.container, at))
        else {
            return self.unknown(container).map(|()| false);
        };
        let rules = history.rules.as_deref().unwrap_or(&default_rules);
        Ok(state.add_oom(&mut history.aggregate, &shapes, rules, requested.bytes(), at.into()))
    }

    /// Takes over the stored history of a container of an autoscaler; it replaces what was taken over before.
    pub fn load_checkpoint(
        &mut self,
        id: &AutoscalerId,
        container: &str,
        stored: &Checkpoint,
        now: Timestamp,
    ) -> Result<(), CheckpointError> {
        check_stored_times(stored, now)?;
        let loaded = Aggregate::load(stored)?;
        let namespace = self.namespaces.get_mut(id.namespace.as_str());
        let autoscaler = namespace.and_then(|namespace| namespace.autoscaler_mut(&id.name));
        autoscaler.ok_or(CheckpointError::UnknownAutoscaler)?.stored.insert(container.into(), loaded);
        Ok(())
    }

    /// Once an hour, drops histories that are too old or of no use, and groups with neither history nor pods; gives how many histories.
    pub fn collect_garbage(&mut self, now: Timestamp) -> usize {
        if Instant::from(now).since(self.last_garbage_collection) < GARBAGE_INTERVAL_NS {
            return 0;
        }
        self.last_garbage_collection = now.into();
        let dropped = self.namespaces.values_mut().map(|namespace| namespace.collect_garbage(now)).sum();
        self.namespaces.retain(|_, namespace| !namespace.is_empty());
        dropped
    }

    fn autoscaler(&self, id: &AutoscalerId) -> Option<(&Namespace, &Autoscaler)> {
        let namespace = self.namespaces.get(id.namespace.as_str())?;
        Some((namespace, namespace.autoscaler(&id.name)?))
    }

    fn namespace_mut(&mut self, name: &str) -> &mut Namespace {
        let rules = self.config.memory;
        self.namespaces.entry(name.into()).or_insert_with(|| Namespace::new(rules))
    }

    fn update(&mut self, name: &str, change: impl FnOnce(&mut Namespace)) {
        let Some(namespace) = self.namespaces.get_mut(name) else { return };
        change(namespace);
        if namespace.is_empty() {
            self.namespaces.remove(name);
        }
    }

    /// An error unless the container is an init container of its pod.
    fn unknown(&self, container: &ContainerRef) -> Result<(), SampleError> {
        let pod = self.namespaces.get(container.namespace.as_str()).and_then(|namespace| namespace.pod(&container.pod));
        if pod.is_some_and(|pod| pod.has_init_container(&container.container)) {
            return Ok(());
        }
        Err(SampleError::UnknownContainer(container.clone()))
    }
}

fn check_time(container: &ContainerRef, at: Timestamp, now: Timestamp) -> Result<(), SampleError> {
    if is_ahead(at, now, MAX_AHEAD_NS) {
        return Err(SampleError::Future { container: container.clone(), at });
    }
    Ok(())
}

fn check_stored_times(stored: &Checkpoint, now: Timestamp) -> Result<(), CheckpointError> {
    for (field, time, reach) in [
        ("cpuHistogram.referenceTimestamp", stored.cpu_histogram.reference_timestamp, MAX_REFERENCE_AHEAD_NS),
        ("memoryHistogram.referenceTimestamp", stored.memory_histogram.reference_timestamp, MAX_REFERENCE_AHEAD_NS),
        ("lastSampleStart", stored.last_sample_start, MAX_AHEAD_NS),
    ] {
        if let Some(time) = time.filter(|time| is_ahead(*time, now, reach)) {
            return Err(CheckpointError::Future { field, time });
        }
    }
    Ok(())
}

fn is_ahead(time: Timestamp, now: Timestamp, reach_ns: i64) -> bool {
    Instant::from(time).since(now.into()) > reach_ns
}
