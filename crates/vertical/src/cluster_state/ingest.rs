//! Input of samples, OOM kills and checkpoints, with plausibility checks.

use jiff::Timestamp;
use model::{ContainerRef, Memory, Sample};
use sizing::{
    Checkpoint, CheckpointError, ContainerHistory, HistogramConfig, Instant, MemoryRules,
    Observation, policy_for,
};
use thiserror::Error;
use view::ObjectKey;

use super::ClusterState;

/// Maximum time of a sample ahead of now. Clocks differ, but later samples would make all real ones
/// look old.
const MAX_AHEAD_NS: i64 = 86_400_000_000_000;

/// Maximum time ahead for window-based policies. A later sample would stall their windows until
/// then, so they ignore it.
pub(super) const MAX_WINDOW_AHEAD_NS: i64 = 300_000_000_000;

/// Parts of a sample that entered the history. Old and negative ones do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Whether the CPU usage was accepted.
    pub cpu: bool,
    /// Whether the memory usage was accepted.
    pub memory: bool,
}

/// The latest future time in a checkpoint.
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
        /// The time of the sample.
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
        check_time(container, sample.at, now)?;
        let shapes = self.shapes;
        let default_rules = self.config.memory;
        let at = sample.at.into();
        let Some(namespace) = self.namespaces.get_mut(container.namespace.as_str()) else {
            return self.unknown(container).map(|()| Accepted::default());
        };
        let Some((state, history)) =
            namespace.container(&container.pod, &container.container, sample.at)
        else {
            return self.unknown(container).map(|()| Accepted::default());
        };
        let rules = history.rules.as_deref().unwrap_or(&default_rules);
        state.forget_after(Instant::from(now).plus(MAX_AHEAD_NS));
        let aggregate = &mut history.aggregate;
        let is_new_memory = state.is_new_memory(at);
        let accepted = Accepted {
            cpu: sample
                .cpu
                .is_some_and(|cpu| state.add_cpu(aggregate, &shapes, cpu.millicores(), at)),
            memory: sample.memory.is_some_and(|memory| {
                state.add_memory(aggregate, &shapes, rules, memory.bytes(), at)
            }),
        };
        if namespace.per_vpa_policies > 0 && !is_ahead(sample.at, now, MAX_WINDOW_AHEAD_NS) {
            let cpu = sample.cpu.filter(|_| accepted.cpu);
            // A repeated sample is accepted above, where only the peak counts.
            let memory = sample.memory.filter(|_| accepted.memory && is_new_memory);
            if cpu.is_some() || memory.is_some() {
                namespace.observe(
                    &container.pod,
                    &container.container,
                    Observation::Usage { cpu, memory },
                    at,
                );
            }
        }
        Ok(accepted)
    }

    /// Adds an OOM kill of a container with this request. Returns false if it is too old to count.
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
        let Some(namespace) = self.namespaces.get_mut(container.namespace.as_str()) else {
            return self.unknown(container).map(|()| false);
        };
        let Some((state, history)) = namespace.container(&container.pod, &container.container, at)
        else {
            return self.unknown(container).map(|()| false);
        };
        let rules = *history.rules.as_deref().unwrap_or(&default_rules);
        let accepted = state.add_oom(
            &mut history.aggregate,
            &shapes,
            &rules,
            requested.bytes(),
            at.into(),
        );
        if accepted && !is_ahead(at, now, MAX_WINDOW_AHEAD_NS) {
            let seen = Observation::Oom {
                request: requested,
                rules: &rules,
            };
            namespace.observe(&container.pod, &container.container, seen, at.into());
        }
        Ok(accepted)
    }

    /// The peak of an OOM kill of a container; `None` for an unknown container.
    pub fn oom_peak(&self, container: &ContainerRef, requested: Memory) -> Option<Memory> {
        let namespace = self.namespaces.get(container.namespace.as_str())?;
        let pod = namespace.pods.get(&*container.pod)?;
        let (_, state) = pod
            .containers()
            .find(|(name, _)| *name == container.container)?;
        Some(Memory::from_bytes(
            state.oom_peak(&self.memory_rules(container), requested.bytes()),
        ))
    }

    /// Memory rules of a container: those of its VPAs, or else the default.
    pub fn memory_rules(&self, container: &ContainerRef) -> MemoryRules {
        let namespace = self.namespaces.get(container.namespace.as_str());
        let group = namespace.and_then(|namespace| {
            namespace
                .groups
                .get(namespace.pods.get(&*container.pod)?.group)
        });
        let mut histories = group.into_iter().flat_map(|group| &group.histories);
        let history = histories.find(|(name, _)| **name == *container.container);
        history
            .and_then(|(_, history)| history.rules.as_deref())
            .copied()
            .unwrap_or(self.config.memory)
    }

    /// Loads the checkpoint of a VPA's container, replacing an earlier one. A checkpoint
    /// that ends more than a day after `now` is refused: samples would not count until then.
    pub fn load_checkpoint(
        &mut self,
        id: &ObjectKey,
        container: &str,
        stored: &Checkpoint,
        now: Timestamp,
    ) -> Result<(), CheckpointError> {
        if let Some(Ahead { field, time, .. }) = self.ahead(id, container, stored, now) {
            return Err(CheckpointError::Future { field, time });
        }
        self.store(id, container, ContainerHistory::load(stored)?)
    }

    /// Loads a checkpoint like [`ClusterState::load_checkpoint`]. One that ends more than a day after
    /// `now` is moved back to end now: for a trusted clock.
    pub fn load_checkpoint_moved_back(
        &mut self,
        id: &ObjectKey,
        container: &str,
        stored: &Checkpoint,
        now: Timestamp,
    ) -> Result<(), CheckpointError> {
        let mut loaded = ContainerHistory::load(stored)?;
        if let Some(Ahead { by_ns, .. }) = self.ahead(id, container, stored, now) {
            loaded.move_back(&self.shapes, by_ns);
        }
        self.store(id, container, loaded)
    }

    fn store(
        &mut self,
        id: &ObjectKey,
        container: &str,
        loaded: ContainerHistory,
    ) -> Result<(), CheckpointError> {
        let namespace = self.namespaces.get_mut(id.namespace.as_str());
        let is_stored =
            namespace.is_some_and(|namespace| namespace.store(&id.name, container, loaded));
        if is_stored {
            Ok(())
        } else {
            Err(CheckpointError::UnknownVpa)
        }
    }

    /// Time by which a checkpoint ends after `now`, if more than allowed for samples. References
    /// may be later by the half-life to which they are rounded, and those of peaks by the window
    /// that they end.
    fn ahead(
        &self,
        id: &ObjectKey,
        container: &str,
        stored: &Checkpoint,
        now: Timestamp,
    ) -> Option<Ahead> {
        let mut rules = self.config.memory;
        let policies = self.vpa(id).map(|(_, vpa)| &*vpa.spec.policies);
        if let Some(policy) = policies.and_then(|policies| policy_for(policies, container)) {
            policy.overlay(&mut rules);
        }
        let rounded = |shape: &HistogramConfig| shape.half_life.nanoseconds();
        let times = [
            ("lastSampleStart", stored.last_sample_start, 0),
            (
                "cpuHistogram.referenceTimestamp",
                stored.cpu_histogram.reference_timestamp,
                rounded(&self.shapes.cpu),
            ),
            (
                "memoryHistogram.referenceTimestamp",
                stored.memory_histogram.reference_timestamp,
                rounded(&self.shapes.memory).saturating_add(rules.interval_ns),
            ),
        ];
        let ahead = times.into_iter().filter_map(|(field, time, slack_ns)| {
            let time = time?;
            let by_ns = Instant::from(time)
                .since(now.into())
                .saturating_sub(slack_ns);
            (by_ns > MAX_AHEAD_NS).then_some(Ahead { field, time, by_ns })
        });
        ahead.max_by_key(|ahead| ahead.by_ns)
    }

    /// An error unless the container is an init container of its pod.
    fn unknown(&self, container: &ContainerRef) -> Result<(), SampleError> {
        let pod = self
            .namespaces
            .get(container.namespace.as_str())
            .and_then(|namespace| namespace.pods.get(&*container.pod));
        if pod.is_some_and(|pod| pod.has_init_container(&container.container)) {
            return Ok(());
        }
        Err(SampleError::UnknownContainer(container.clone()))
    }
}

fn check_time(container: &ContainerRef, at: Timestamp, now: Timestamp) -> Result<(), SampleError> {
    if is_ahead(at, now, MAX_AHEAD_NS) {
        return Err(SampleError::Future {
            container: container.clone(),
            at,
        });
    }
    Ok(())
}

fn is_ahead(time: Timestamp, now: Timestamp, reach_ns: i64) -> bool {
    Instant::from(time).since(now.into()) > reach_ns
}
