//! Input of samples, OOM kills, checkpoints and backfilled history, with plausibility checks.

use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use jiff::Timestamp;
use model::{ContainerRef, Cpu, Memory, Sample};
use sizing::{
    CheckpointError, ContainerHistory, ContainerState, HistogramConfig, HistogramConfigs, Instant,
    MemoryRules, Observation,
};
use thiserror::Error;
use view::ObjectKey;

use super::ClusterState;
use super::method_history::MAX_WINDOW_AHEAD_NS;
use super::namespace::{Namespace, Pod};
use crate::checkpoint::content::{from_object, time};

/// Maximum time of a sample ahead of now. Clocks differ, but later samples would make all real ones
/// look old.
const MAX_AHEAD_NS: i64 = 86_400_000_000_000;

/// Parts of a sample that entered the history. Old and negative ones do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Whether the CPU usage was accepted.
    pub cpu: bool,
    /// Whether the memory usage was accepted.
    pub memory: bool,
}

/// The latest future time in a checkpoint.
#[derive(Clone, Copy)]
struct Ahead {
    field: &'static str,
    time: Timestamp,
    /// Nanoseconds from now to it, less its tolerance after the last sample.
    by_ns: i64,
}

/// Reasons for refusing a sample or OOM kill.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SampleError {
    /// The pod does not exist, or has no such container.
    #[error("container {0} is not known")]
    UnknownContainer(ContainerRef),
    /// The time is more than a day ahead.
    #[error("sample of container {container} is from the future: {at}")]
    Future {
        container: ContainerRef,
        at: Timestamp,
    },
}

impl ClusterState {
    /// Adds the usage of a container. Samples of init containers are dropped.
    pub fn add_sample(
        &mut self,
        container: &ContainerRef,
        sample: &Sample,
        now: Timestamp,
    ) -> Result<Accepted, SampleError> {
        let at = sample.at.into();
        self.add(
            container,
            sample.at,
            now,
            |state, history, shapes, rules| {
                state.forget_after(Instant::from(now).plus(MAX_AHEAD_NS));
                let is_new_memory = state.is_new_memory(at);
                let add_cpu = |cpu: &Cpu| state.add_cpu(history, shapes, cpu.millicores(), at);
                let cpu = sample.cpu.filter(add_cpu);
                let add_memory =
                    |memory: &Memory| state.add_memory(history, shapes, &rules, memory.bytes(), at);
                let memory = sample.memory.filter(add_memory);
                let accepted = Accepted {
                    cpu: cpu.is_some(),
                    memory: memory.is_some(),
                };
                // A repeated sample is accepted above, where only the peak counts.
                let memory = memory.filter(|_| is_new_memory);
                let is_seen = cpu.is_some() || memory.is_some();
                let seen = Observation::Usage { cpu, memory };
                (accepted, is_seen.then_some(seen))
            },
        )
    }

    /// Adds an OOM kill of a container with this request. Returns false if it is too old to count.
    pub fn record_oom(
        &mut self,
        container: &ContainerRef,
        at: Timestamp,
        request: Memory,
        now: Timestamp,
    ) -> Result<bool, SampleError> {
        self.add(container, at, now, |state, history, shapes, rules| {
            let accepted = state.add_oom(history, shapes, &rules, request.bytes(), at.into());
            let seen = Observation::Oom { request, rules };
            (accepted, accepted.then_some(seen))
        })
    }

    /// Adds to the history of a container by `add`, which returns its result and what per-VPA
    /// policies observe.
    fn add<T: Default>(
        &mut self,
        container: &ContainerRef,
        at: Timestamp,
        now: Timestamp,
        add: impl FnOnce(
            &mut ContainerState,
            &mut ContainerHistory,
            &HistogramConfigs,
            MemoryRules,
        ) -> (T, Option<Observation>),
    ) -> Result<T, SampleError> {
        if is_ahead(at, now, MAX_AHEAD_NS) {
            return Err(SampleError::Future {
                container: container.clone(),
                at,
            });
        }
        let unknown = || SampleError::UnknownContainer(container.clone());
        let ContainerRef {
            namespace,
            pod,
            container,
        } = container;
        let namespace = self.namespaces.get_mut(namespace.as_str());
        let namespace = namespace.ok_or_else(unknown)?;
        let Some((state, history)) = namespace.container(pod, container, at) else {
            let pod = namespace.pods.get(pod.as_str());
            let is_init = pod.is_some_and(|pod| pod.has_init_container(container));
            return if is_init {
                Ok(T::default())
            } else {
                Err(unknown())
            };
        };
        let rules = *history.rules.as_deref().unwrap_or(&self.config.memory);
        let (result, seen) = add(state, &mut history.aggregate, &self.shapes, rules);
        if namespace.histories.per_vpa_policies > 0
            && !is_ahead(at, now, MAX_WINDOW_AHEAD_NS)
            && let Some(seen) = seen
        {
            namespace.observe(pod, container, seen, at.into());
        }
        Ok(result)
    }

    /// The peak of an OOM kill of a container; `None` for an unknown container.
    pub fn oom_peak(&self, container: &ContainerRef, requested: Memory) -> Option<Memory> {
        let (_, pod) = self.find_pod(&container.namespace, &container.pod)?;
        let mut states = pod.containers();
        let (_, state) = states.find(|(name, _)| *name == container.container)?;
        let peak = state.oom_peak(&self.memory_rules(container), requested.bytes());
        Some(Memory::from_bytes(peak))
    }

    /// Memory rules of a container: those of its VPAs, or else the default.
    pub fn memory_rules(&self, container: &ContainerRef) -> MemoryRules {
        let pod = self.find_pod(&container.namespace, &container.pod);
        let rules = pod.and_then(|(namespace, pod)| {
            let group = namespace.group(pod)?;
            Some(namespace.histories.rules_of(group, &container.container))
        });
        rules.unwrap_or(self.config.memory)
    }

    /// Loads the checkpoint of a VPA's container, replacing an earlier one. Samples would not count
    /// until the end of one that ends more than a day after `now`. With a trusted clock it is moved
    /// back to end now, else it is refused.
    pub fn load_checkpoint(
        &mut self,
        id: &ObjectKey,
        container: &str,
        stored: &VerticalPodAutoscalerCheckpointStatus,
        now: Timestamp,
        trusts_clock: bool,
    ) -> Result<(), CheckpointError> {
        let ahead = self.ahead(id, container, stored, now);
        if let Some(Ahead { field, time, .. }) = ahead.filter(|_| !trusts_clock) {
            return Err(CheckpointError::Future { field, time });
        }
        let mut loaded = from_object(stored)?;
        if let Some(Ahead { by_ns, .. }) = ahead {
            loaded.move_back(&self.shapes, by_ns);
        }
        let namespace = self.namespaces.get_mut(id.namespace.as_str());
        let is_stored =
            namespace.is_some_and(|namespace| namespace.store(&id.name, container, loaded));
        is_stored.then_some(()).ok_or(CheckpointError::UnknownVpa)
    }

    /// Time by which a checkpoint ends after `now`, if more than allowed for samples. References
    /// may be later by the half-life to which they are rounded, and those of peaks by the window
    /// that they end.
    fn ahead(
        &self,
        id: &ObjectKey,
        container: &str,
        stored: &VerticalPodAutoscalerCheckpointStatus,
        now: Timestamp,
    ) -> Option<Ahead> {
        let rules = self.vpa(id).map(|matched| matched.memory_rules(container));
        let rules = rules.unwrap_or(self.config.memory);
        let rounded = |shape: &HistogramConfig| shape.half_life.nanoseconds();
        let times = [
            ("lastSampleStart", &stored.last_sample_start, 0),
            (
                "cpuHistogram.referenceTimestamp",
                &stored.cpu_histogram.reference_timestamp,
                rounded(&self.shapes.cpu),
            ),
            (
                "memoryHistogram.referenceTimestamp",
                &stored.memory_histogram.reference_timestamp,
                rounded(&self.shapes.memory).saturating_add(rules.interval_ns),
            ),
        ];
        let ahead = times.into_iter().filter_map(|(field, stored, slack_ns)| {
            let time = time(stored.as_ref())?;
            let by_ns = Instant::from(time)
                .since(now.into())
                .saturating_sub(slack_ns);
            (by_ns > MAX_AHEAD_NS).then_some(Ahead { field, time, by_ns })
        });
        ahead.max_by_key(|ahead| ahead.by_ns)
    }

    /// Merges backfilled history before the history here, and continues the open memory windows of
    /// running containers. Samples in both count twice, so `earlier`, which was fed in order of time,
    /// must end where this state begins. Pods and VPAs stay those of this state;
    /// both must have the same half-lives.
    pub fn prepend_history(&mut self, earlier: &Self, now: Timestamp) {
        let shapes = self.shapes;
        for (name, earlier) in &earlier.namespaces {
            self.namespace_mut(name)
                .prepend_history(earlier, &shapes, now);
            self.update(name, |_| ());
        }
    }
}

impl Namespace {
    fn prepend_history(&mut self, earlier: &Self, shapes: &HistogramConfigs, now: Timestamp) {
        let mut merged = 0;
        for group in earlier.histories.groups.iter() {
            let id = self.histories.group_of((*group.labels).clone());
            for (container, before) in &group.histories {
                if let Some(history) = self.histories.history(id, container, now) {
                    history.aggregate.merge(shapes, &before.aggregate);
                    merged += 1;
                }
            }
            self.histories.drop_if_idle(id);
        }
        for (name, pod) in &earlier.pods {
            let labels = earlier.labels(pod);
            let known = self.pods.get(name).and_then(|pod| self.labels(pod));
            if labels.is_some() && labels == known {
                self.resume(name, pod, shapes, now);
            }
        }
        self.may_be_idle(merged);
    }

    /// Continues the containers of a pod from their earlier state. If labels changed in between,
    /// the open window belongs to another history.
    fn resume(&mut self, name: &str, earlier: &Pod, shapes: &HistogramConfigs, now: Timestamp) {
        let default_rules = self.histories.default_rules;
        for (container, before) in earlier.containers() {
            if let Some((state, history)) = self.container(name, container, now) {
                let rules = history.rules.as_deref().unwrap_or(&default_rules);
                state.resume(before, &mut history.aggregate, shapes, rules);
            }
        }
    }
}

fn is_ahead(time: Timestamp, now: Timestamp, reach_ns: i64) -> bool {
    Instant::from(time).since(now.into()) > reach_ns
}
